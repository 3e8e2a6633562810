use crate::{
    Array, Buffer, Element,
    v1::{self, argument::Value},
};

/// What a program can be given. Arguments without a name or slot go to parameters and variables in ascending order of
/// slot.
#[derive(Clone, Debug)]
pub enum Argument {
    /// An array by value.
    Array(Array),
    /// Memory on the device.
    Buffer(Buffer),
    /// Memory on the device, from a byte on.
    Part(Buffer, u64),
    /// A variable's value.
    Integer(i64),
    /// One of these for the parameter or variable of that name, wherever it stands.
    Named(String, Box<Argument>),
    /// One of these for the parameter or variable in that slot, such as a constant of a model's file.
    InSlot(u32, Box<Argument>),
}

impl Argument {
    /// An argument for the parameter or variable of that name.
    pub fn named(name: impl Into<String>, value: impl Into<Argument>) -> Argument {
        Argument::Named(name.into(), Box::new(value.into()))
    }

    /// An argument for the parameter or variable in that slot, such as a constant of a model's file.
    pub fn in_slot(slot: u32, value: impl Into<Argument>) -> Argument {
        Argument::InSlot(slot, Box::new(value.into()))
    }

    pub(crate) fn to_wire(&self, slot: u32) -> v1::Argument {
        let value = match self {
            Argument::Array(array) => Value::Tensor(array.to_wire()),
            Argument::Buffer(buffer) => Value::Buffer(buffer.reference(0)),
            Argument::Part(buffer, offset) => Value::Buffer(buffer.reference(*offset)),
            Argument::Integer(value) => Value::Integer(*value),
            Argument::Named(_, value) | Argument::InSlot(_, value) => return value.to_wire(slot),
        };
        v1::Argument { slot, value: Some(value) }
    }

    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        match self {
            Argument::Buffer(buffer) | Argument::Part(buffer, _) => Some(buffer),
            Argument::Named(_, value) | Argument::InSlot(_, value) => value.buffer(),
            Argument::Array(_) | Argument::Integer(_) => None,
        }
    }
}

/// Arguments of several kinds; before `=>` stands a name.
///
/// ```
/// use kiln::{Array, Argument, args};
///
/// let arguments = args![Array::from([1.0f32, 2.0]), 3, "scale" => Array::scalar(0.5f32)];
/// assert!(matches!(arguments[1], Argument::Integer(3)));
/// ```
#[macro_export]
macro_rules! args {
    (@ [$($made:expr),*]) => {{
        let made: Vec<$crate::Argument> = vec![$($made),*];
        made
    }};
    (@ [$($made:expr),*] $name:literal => $value:expr $(, $($rest:tt)*)?) => {
        $crate::args!(@ [$($made,)* $crate::Argument::named($name, $value)] $($($rest)*)?)
    };
    (@ [$($made:expr),*] $value:expr $(, $($rest:tt)*)?) => {
        $crate::args!(@ [$($made,)* $crate::Argument::from($value)] $($($rest)*)?)
    };
    ($($all:tt)*) => {
        $crate::args!(@ [] $($all)*)
    };
}

impl From<Array> for Argument {
    fn from(array: Array) -> Argument {
        Argument::Array(array)
    }
}

impl From<&Array> for Argument {
    fn from(array: &Array) -> Argument {
        Argument::Array(array.clone())
    }
}

impl<T: Element> From<Vec<T>> for Argument {
    fn from(values: Vec<T>) -> Argument {
        Argument::Array(values.into())
    }
}

impl From<Buffer> for Argument {
    fn from(buffer: Buffer) -> Argument {
        Argument::Buffer(buffer)
    }
}

impl From<&Buffer> for Argument {
    fn from(buffer: &Buffer) -> Argument {
        Argument::Buffer(buffer.clone())
    }
}

impl From<i64> for Argument {
    fn from(value: i64) -> Argument {
        Argument::Integer(value)
    }
}

impl From<i32> for Argument {
    fn from(value: i32) -> Argument {
        Argument::Integer(value.into())
    }
}
