//! Regions of a plane, as people draw them on a spectrum.
//!
//! ```text
//!  [[polygon]]                             y
//!  name = "neutrons"                       │   ┌──────┐
//!  x = "energy"                            │  /  in    \
//!  y = "psd"                               │ └──────────┘
//!  points = [[200, 0.2], [3000, 0.15], …]  └──────────────── x
//! ```

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::CutError;
use super::field::{Field, Real};

/// Corners, at most: each is looked at for every hit.
const MOST_POINTS: usize = 64;

/// `[[polygon]]`: a region that expressions call `inside(name)`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What expressions call it.
    pub name: String,
    /// Field along the first axis.
    pub x: String,
    /// Field along the second axis.
    pub y: String,
    /// Corners, one after the other; the last is joined to the first. Two corners are opposite ones of a rectangle.
    pub points: Vec<[f64; 2]>,
}

/// A region of a plane of two fields. A point on its left or lower border is inside, one on its right or upper border is not, so that
/// regions side by side share no hit.
#[derive(Clone, Debug, PartialEq)]
pub struct Polygon {
    pub(super) name: String,
    pub(super) x: Field,
    pub(super) y: Field,
    points: Vec<[f64; 2]>,
}

impl Polygon {
    /// All regions of a configuration.
    ///
    /// # Errors
    /// When one is invalid, or two have one name.
    pub fn read(settings: &[Settings]) -> Result<Vec<Polygon>, CutError> {
        for (index, each) in settings.iter().enumerate() {
            if settings[..index].iter().any(|other| other.name == each.name) {
                return Err(CutError::TwoPolygons(each.name.clone()));
            }
        }
        settings.iter().map(Polygon::new).collect()
    }

    /// A region as it is described.
    ///
    /// # Errors
    /// When a field is unknown, a corner is no pair of numbers, or borders cross each other.
    pub fn new(settings: &Settings) -> Result<Polygon, CutError> {
        let refuse = |message: String| CutError::Polygon { name: settings.name.clone(), message };
        let field = |name: &str| {
            Field::from_name(name).ok_or_else(|| refuse(format!("there is no field \"{name}\"; {}", known())))
        };
        let (x, y) = (field(&settings.x)?, field(&settings.y)?);
        let mut points = settings.points.clone();
        if let [one, other] = points[..] {
            points = vec![one, [other[0], one[1]], other, [one[0], other[1]]];
        }
        if !(3..=MOST_POINTS).contains(&points.len()) {
            let count = settings.points.len();
            return Err(refuse(format!(
                "{count} points; draw 3 to {MOST_POINTS}, or 2 opposite corners of a rectangle"
            )));
        }
        if points.iter().flatten().any(|each| !each.is_finite()) {
            return Err(refuse("a point is not a pair of finite numbers".to_owned()));
        }
        if let Some((one, other)) = crossing(&points) {
            let side = |at: usize| format!("{:?}–{:?}", points[at], points[(at + 1) % points.len()]);
            let message =
                format!("its sides {} and {} meet; draw it without crossing itself", side(one), side(other));
            return Err(refuse(message));
        }
        if area(&points) == 0.0 {
            return Err(refuse("it encloses nothing".to_owned()));
        }
        Ok(Polygon { name: settings.name.clone(), x, y, points })
    }

    /// Says of each point whether it is inside (1) or not (0). What is not a number is outside.
    #[inline(always)]
    pub(super) fn fill<T: Real + Into<f64>>(&self, x: &[T], y: &[T], inside: &mut [u8]) {
        inside.fill(0);
        let mut before = self.points[self.points.len() - 1];
        for corner in &self.points {
            let (one, other) = (std::mem::replace(&mut before, *corner), *corner);
            // From the lower to the upper corner, so that two regions with this side between them round alike, whichever way each goes.
            let (lower, upper) = if one[1] <= other[1] { (one, other) } else { (other, one) };
            // In the precision of the points, as every number of an expression.
            let ([x0, y0], [x1, y1]) =
                (lower.map(|each| T::of(each).into()), upper.map(|each| T::of(each).into()));
            if y0 == y1 {
                continue;
            }
            let slope = (x1 - x0) / (y1 - y0);
            for ((inside, x), y) in inside.iter_mut().zip(x).zip(y) {
                let (x, y): (f64, f64) = ((*x).into(), (*y).into());
                // A ray to the right crosses this side.
                let spans = (y0 <= y) != (y1 <= y);
                *inside ^= u8::from(spans & (x < slope * (y - y0) + x0));
            }
        }
    }
}

pub(super) fn known() -> String {
    let names: Vec<&str> = super::field::FIELDS.iter().map(|(_, name, ..)| *name).collect();
    format!("there are {}", names.join(", "))
}

fn area(points: &[[f64; 2]]) -> f64 {
    let next = points.iter().cycle().skip(1);
    points.iter().zip(next).map(|(one, other)| one[0] * other[1] - other[0] * one[1]).sum::<f64>().abs() / 2.0
}

/// Two sides that meet although they are no neighbours, or neighbours that lie on each other.
fn crossing(points: &[[f64; 2]]) -> Option<(usize, usize)> {
    let count = points.len();
    let side = |at: usize| (points[at], points[(at + 1) % count]);
    for one in 0..count {
        for other in one + 1..count {
            let neighbours = other == one + 1 || (one == 0 && other == count - 1);
            let ((a, b), (c, d)) = (side(one), side(other));
            if !neighbours && meet(a, b, c, d) {
                return Some((one, other));
            }
        }
    }
    None
}

/// On which side of the line from `a` to `b` a point lies.
fn turn(a: [f64; 2], b: [f64; 2], c: [f64; 2]) -> f64 {
    (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
}

fn meet(a: [f64; 2], b: [f64; 2], c: [f64; 2], d: [f64; 2]) -> bool {
    let (abc, abd, cda, cdb) = (turn(a, b, c), turn(a, b, d), turn(c, d, a), turn(c, d, b));
    if abc * abd < 0.0 && cda * cdb < 0.0 {
        return true;
    }
    let within = |p: [f64; 2], q: [f64; 2], r: [f64; 2]| {
        (p[0].min(q[0])..=p[0].max(q[0])).contains(&r[0]) && (p[1].min(q[1])..=p[1].max(q[1])).contains(&r[1])
    };
    (abc == 0.0 && within(a, b, c))
        || (abd == 0.0 && within(a, b, d))
        || (cda == 0.0 && within(c, d, a))
        || (cdb == 0.0 && within(c, d, b))
}
