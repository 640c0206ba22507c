//! All connections, by token.

use std::net::TcpStream;

use crate::connection::{Buffers, Connection};
use crate::token::Token;

struct Seat {
    life: u32,
    connection: Option<Connection>,
    /// The buffers of a closed connection, for the next one.
    buffers: Buffers,
}

/// Places beyond those there may be: for pages, and for viewers who say that they are gone. Without them
/// nobody could see, or end, that all places are taken.
const KEPT: usize = 8;

/// Places for connections. One that is given again has another life, so that its tokens differ.
pub struct Connections {
    seats: Vec<Seat>,
    free: Vec<u32>,
    most: usize,
}

impl Connections {
    pub fn new(most: usize) -> Self {
        Self {
            seats: Vec::new(),
            free: Vec::new(),
            most,
        }
    }

    pub fn len(&self) -> usize {
        self.seats.len() - self.free.len()
    }

    /// More than there may be: nobody can wait on one of those beyond.
    pub fn full(&self) -> bool {
        self.len() > self.most
    }

    /// A place for it, if only for one answer. `Err`: there are as many as there may be, and more.
    pub fn admit(&mut self, stream: TcpStream, now: u64) -> Result<Token, TcpStream> {
        let beyond = self.len() >= self.most;
        if self.len() >= self.most + KEPT {
            return Err(stream);
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.seats.push(Seat {
                life: 0,
                connection: None,
                buffers: Buffers::default(),
            });
            u32::try_from(self.seats.len() - 1).expect("there are not so many descriptors")
        });
        let seat = &mut self.seats[place as usize];
        seat.life = seat.life.wrapping_add(1);
        let token = Token::new(place, seat.life);
        let buffers = std::mem::take(&mut seat.buffers);
        seat.connection = Some(Connection::new(stream, token, now, beyond, buffers));
        Ok(token)
    }

    pub fn get(&mut self, token: Token) -> Option<&mut Connection> {
        let seat = self.seats.get_mut(token.place())?;
        seat.connection.as_mut().filter(|it| it.token == token)
    }

    /// Closes it, if it is still there.
    pub fn end(&mut self, token: Token) {
        let Some(seat) = self.seats.get_mut(token.place()) else {
            return;
        };
        if let Some(connection) = seat.connection.take_if(|it| it.token == token) {
            seat.buffers = connection.end();
            self.free.push(token.index());
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &Connection> {
        self.seats
            .iter()
            .filter_map(|seat| seat.connection.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_place_is_given_again_and_its_old_token_means_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut connections = Connections::new(2);
        let first = connections.admit(connect(), 0).unwrap();
        let second = connections.admit(connect(), 0).unwrap();
        connections.end(first);
        connections.end(first);
        assert_eq!(connections.len(), 1);
        let third = connections.admit(connect(), 0).unwrap();
        assert_eq!(third.place(), first.place());
        assert_ne!(third, first);
        assert!(
            connections.get(first).is_none()
                && connections.get(third).is_some()
                && connections.get(second).is_some()
        );
        assert_eq!(Token::of(third.number()), third);
        assert_eq!(connections.all().count(), 2);
    }

    #[test]
    fn beyond_all_places_a_few_are_kept_for_one_answer_each() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut connections = Connections::new(2);
        let tokens: Vec<Token> = (0..2 + KEPT)
            .map(|_| connections.admit(connect(), 0).unwrap())
            .collect();
        assert!(connections.full() && connections.admit(connect(), 0).is_err());
        let beyond = |connections: &mut Connections, token| connections.get(token).unwrap().beyond;
        let beyond_places: Vec<bool> = tokens
            .iter()
            .map(|it| beyond(&mut connections, *it))
            .collect();
        assert_eq!(beyond_places.iter().filter(|it| **it).count(), KEPT);
        assert!(!beyond_places[1] && beyond_places[2]);
        for token in &tokens[1..=KEPT] {
            connections.end(*token);
        }
        assert!(!connections.full());
    }
}
