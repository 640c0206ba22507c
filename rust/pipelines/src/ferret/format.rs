//! How images lie in a corpus: as pixels, or as JPEG files, which the load stage decodes.
//!
//! Each image has a place of the same length, so that each begins where a read past the page cache may.
//! The decoder and the encoder work in whole numbers, and use no instructions that not all CPUs have: the
//! same bytes and the same pixels on every machine.

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use jpeg_decoder::{Decoder, PixelFormat};
use jpeg_encoder::{ColorType, Encoder};
use serde::{Deserialize, Serialize};

use super::images::{BYTES, SIDE};

/// Of a JPEG file: a multiple of 4 096, of which some 3 000 to 6 000 are used.
const PLACE: usize = 16_384;
/// Of 100: what photographs are usually kept with.
const QUALITY: u8 = 85;

/// What an image's bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Red, green and blue of each pixel: nothing is decoded.
    #[default]
    Pixels,
    /// A JPEG file, zeros behind it.
    Jpeg,
}

impl Format {
    /// Manifests of corpora of pixels say nothing of it.
    #[allow(clippy::trivially_copy_pass_by_ref)] // As serde asks it.
    pub(super) fn is_pixels(&self) -> bool {
        *self == Self::Pixels
    }

    /// Bytes that an image has in the corpus.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Pixels => BYTES,
            Self::Jpeg => PLACE,
        }
    }

    /// What stands in the corpus for these pixels.
    ///
    /// # Errors
    /// When a JPEG file has no room in its place.
    pub fn packed(self, pixels: Vec<u8>) -> Result<Vec<u8>> {
        if self == Self::Pixels {
            return Ok(pixels);
        }
        let side = u16::try_from(SIDE)?;
        let mut file = Vec::with_capacity(PLACE);
        Encoder::new(&mut file, QUALITY).encode(&pixels, side, side, ColorType::Rgb)?;
        ensure!(
            file.len() <= PLACE,
            "a JPEG file of {} bytes has no room in {PLACE}",
            file.len()
        );
        file.resize(PLACE, 0);
        Ok(file)
    }

    /// The pixels of what stands in the corpus.
    ///
    /// # Errors
    /// When it is no image of this corpus.
    pub fn pixels(self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        if self == Self::Pixels {
            return Ok(bytes);
        }
        let mut decoder = Decoder::new(bytes.as_slice());
        let pixels = decoder.decode().context("an image is no JPEG file")?;
        let whole = decoder.info().is_some_and(|info| {
            info.pixel_format == PixelFormat::RGB24
                && usize::from(info.width) == SIDE
                && usize::from(info.height) == SIDE
        });
        ensure!(whole, "an image is not {SIDE} pixels wide and high");
        Ok(pixels)
    }
}

#[cfg(test)]
mod tests {
    use super::super::images::{Plan, image};
    use super::*;

    const PLAN: Plan = Plan {
        images: 8,
        queries: 2,
        classes: 4,
        seed: 1,
        format: Format::Jpeg,
    };

    #[test]
    fn a_jpeg_file_is_small_and_shows_nearly_the_same() {
        let pixels = image(PLAN, 3);
        let file = Format::Jpeg.packed(pixels.clone()).unwrap();
        assert_eq!((file.len(), &file[..2]), (PLACE, &[0xff, 0xd8][..]));
        let decoded = Format::Jpeg.pixels(file).unwrap();
        let apart: u64 = decoded
            .iter()
            .zip(&pixels)
            .map(|(a, b)| u64::from(a.abs_diff(*b)))
            .sum();
        assert_eq!(decoded.len(), BYTES);
        assert!(apart < 8 * BYTES as u64);
        assert_ne!(decoded, pixels);
    }

    #[test]
    fn pixels_stay_as_they_are() {
        let pixels = image(PLAN, 3);
        let kept = Format::Pixels.packed(pixels.clone()).unwrap();
        assert_eq!(Format::Pixels.pixels(kept).unwrap(), pixels);
    }

    #[test]
    fn what_is_no_jpeg_file_is_said() {
        let says = |bytes: Vec<u8>| Format::Jpeg.pixels(bytes).err().unwrap().to_string();
        assert_eq!(says(vec![0; PLACE]), "an image is no JPEG file");
        let mut small = Vec::new();
        let encoder = Encoder::new(&mut small, QUALITY);
        encoder.encode(&[7; 12], 2, 2, ColorType::Rgb).unwrap();
        assert_eq!(says(small), "an image is not 128 pixels wide and high");
    }
}
