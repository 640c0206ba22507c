//! Names a connection.

/// One that is gone is not mistaken for the next in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    place: u32,
    life: u32,
}

impl Token {
    pub fn new(place: u32, life: u32) -> Self {
        Self { place, life }
    }

    pub fn place(self) -> usize {
        self.place as usize
    }

    pub fn index(self) -> u32 {
        self.place
    }

    pub fn number(self) -> u64 {
        u64::from(self.life) << 32 | u64::from(self.place)
    }

    #[allow(clippy::cast_possible_truncation)]
    pub fn of(number: u64) -> Self {
        Self::new(number as u32, (number >> 32) as u32)
    }
}
