//! A generated corpus of images: classes of the same scene, each image a variation of its class.
//!
//! A class is a textured ground and three to eight textured shapes (ellipses, boxes, triangles). An image of
//! it moves, scales and recolours them a little, shifts the textures, adds noise, and now and then a shape
//! that does not belong. Integers alone, so the same bytes on every machine.

use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::format::Format;
use crate::draw::Draw;
use crate::{digest, manifest};

/// Pixels in a row and in a column.
pub const SIDE: usize = 128;
/// Bytes of an image: red, green, blue of each pixel, row after row; a multiple of 4 096.
pub const BYTES: usize = SIDE * SIDE * 3;

const NOISE: i32 = 5;
const SHIFT: i32 = 7;
const RECOLOUR: i32 = 10;

/// What a corpus is to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Images of the database: the first in the file.
    pub images: usize,
    /// Images to search with: the others.
    pub queries: usize,
    /// Scenes; image i is of class i mod classes.
    pub classes: usize,
    pub seed: u64,
    #[serde(default, skip_serializing_if = "Format::is_pixels")]
    pub format: Format,
}

/// What a corpus is: it lies beside it as a file of the same name with `.json` behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Corpus {
    #[serde(flatten)]
    pub plan: Plan,
    pub sha256: String,
}

impl Corpus {
    /// Makes a corpus, in a file that is on the disk when this returns, and its manifest.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn make(plan: Plan, path: &Path) -> Result<Self> {
        let numbers = 0..plan.images + plan.queries;
        let images = numbers.map(|number| plan.format.packed(image(plan, number)));
        let sha256 = digest::store(path, images)?;
        let corpus = Self { plan, sha256 };
        manifest::store(path, &corpus)?;
        Ok(corpus)
    }
}

#[derive(Clone, Copy)]
enum Form {
    Ellipse,
    Box,
    Triangle,
}

#[derive(Clone, Copy)]
enum Texture {
    Plain,
    Stripes,
    Checks,
    Slope,
}

/// What an area is filled with.
#[derive(Clone, Copy)]
struct Paint {
    colour: [i32; 3],
    texture: Texture,
    period: i32,
    contrast: i32,
    phase: i32,
}

/// Centre and half axes in pixels.
#[derive(Clone, Copy)]
struct Shape {
    form: Form,
    x: i32,
    y: i32,
    half_width: i32,
    half_height: i32,
    paint: Paint,
}

struct Scene {
    ground: Paint,
    shapes: Vec<Shape>,
}

/// The pixels of one image of a corpus.
#[must_use]
pub fn image(plan: Plan, number: usize) -> Vec<u8> {
    let class = number % plan.classes;
    let mut draw = Draw::new(plan.seed ^ (class as u64 + 1) << 20);
    let mut scene = scene(&mut draw);
    let mut draw = Draw::new(plan.seed ^ (number as u64 + 1) << 40);
    vary(&mut scene, &mut draw);
    paint(&scene, &mut draw)
}

fn signed(draw: &mut Draw, most: i32) -> i32 {
    whole(draw, -most, most + 1)
}

fn whole(draw: &mut Draw, low: i32, high: i32) -> i32 {
    let span = usize::try_from(high - low).unwrap_or(1);
    low + i32::try_from(draw.between(0, span)).unwrap_or(0)
}

fn scene(draw: &mut Draw) -> Scene {
    let ground = any_paint(draw);
    let shapes = (0..whole(draw, 3, 9)).map(|_| any_shape(draw)).collect();
    Scene { ground, shapes }
}

fn any_paint(draw: &mut Draw) -> Paint {
    Paint {
        colour: std::array::from_fn(|_| whole(draw, 30, 226)),
        texture: [
            Texture::Plain,
            Texture::Stripes,
            Texture::Checks,
            Texture::Slope,
        ][draw.between(0, 4)],
        period: whole(draw, 4, 17),
        contrast: whole(draw, 6, 19),
        phase: 0,
    }
}

fn any_shape(draw: &mut Draw) -> Shape {
    Shape {
        form: [Form::Ellipse, Form::Box, Form::Triangle][draw.between(0, 3)],
        x: whole(draw, 20, 108),
        y: whole(draw, 20, 108),
        half_width: whole(draw, 12, 36),
        half_height: whole(draw, 12, 36),
        paint: any_paint(draw),
    }
}

fn vary(scene: &mut Scene, draw: &mut Draw) {
    if draw.between(0, 4) == 0 {
        scene.shapes.push(any_shape(draw));
    }
    vary_paint(&mut scene.ground, draw);
    for shape in &mut scene.shapes {
        shape.x += signed(draw, SHIFT);
        shape.y += signed(draw, SHIFT);
        shape.half_width += shape.half_width * signed(draw, 15) / 100;
        shape.half_height += shape.half_height * signed(draw, 15) / 100;
        vary_paint(&mut shape.paint, draw);
    }
}

fn vary_paint(paint: &mut Paint, draw: &mut Draw) {
    for channel in &mut paint.colour {
        *channel += signed(draw, RECOLOUR);
    }
    paint.phase = whole(draw, 0, 2 * paint.period);
}

fn paint(scene: &Scene, draw: &mut Draw) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(BYTES);
    let side = i32::try_from(SIDE).unwrap_or(0);
    for y in 0..side {
        for x in 0..side {
            let on_top = scene.shapes.iter().rev().find(|shape| covers(shape, x, y));
            let paint = on_top.map_or(&scene.ground, |shape| &shape.paint);
            let offset = offset(paint, x, y);
            for channel in paint.colour {
                let value = channel + offset + signed(draw, NOISE);
                pixels.push(u8::try_from(value.clamp(0, 255)).unwrap_or(0));
            }
        }
    }
    pixels
}

fn covers(shape: &Shape, x: i32, y: i32) -> bool {
    let (dx, dy, w, h) = (
        x - shape.x,
        y - shape.y,
        shape.half_width,
        shape.half_height,
    );
    match shape.form {
        Form::Ellipse => dx * dx * h * h + dy * dy * w * w <= w * w * h * h,
        Form::Box => dx.abs() <= w && dy.abs() <= h,
        // The tip on top, the base below.
        Form::Triangle => dy.abs() <= h && 2 * h * dx.abs() <= w * (dy + h),
    }
}

fn offset(paint: &Paint, x: i32, y: i32) -> i32 {
    let band = |at: i32| (at + paint.phase) / paint.period % 2 == 0;
    let up = match paint.texture {
        Texture::Plain => return 0,
        Texture::Slope => return (x + y + paint.phase) * paint.contrast / 128 - paint.contrast,
        Texture::Stripes => band(x + y),
        Texture::Checks => band(x) == band(y),
    };
    if up { paint.contrast } else { -paint.contrast }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        images: 8,
        queries: 2,
        classes: 4,
        seed: 1,
        format: Format::Pixels,
    };

    #[test]
    fn an_image_follows_from_plan_and_number() {
        assert_eq!(image(PLAN, 3), image(PLAN, 3));
        assert_eq!(image(PLAN, 3).len(), BYTES);
        assert_ne!(image(PLAN, 3), image(PLAN, 7));
        assert_ne!(image(PLAN, 3), image(Plan { seed: 2, ..PLAN }, 3));
    }

    #[test]
    fn an_image_is_nearer_to_its_class_than_to_others() {
        let apart = |a: usize, b: usize| -> u64 {
            let pairs = image(PLAN, a).into_iter().zip(image(PLAN, b));
            pairs.map(|(a, b)| u64::from(a.abs_diff(b))).sum()
        };
        assert!(apart(0, 4) < apart(0, 5));
        assert!(apart(1, 5) < apart(1, 4));
    }
}
