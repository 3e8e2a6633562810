//! Files of a model's constants: .safetensors. Such a file is the length of its header (8 bytes, little-endian), the
//! header (JSON), and the arrays' bytes.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{Array, DType, Error, Result, error::bad_argument};

/// Reads the constants of a model, from the .safetensors that `kiln import model.onnx -o model.kgraph` writes beside
/// the graph: by the slot with which each one's name begins ("3_weight"). They share one memory. What runs more than
/// once uploads them first.
///
/// ```no_run
/// # use kiln::Argument;
/// # async fn example(client: kiln::Client, x: Vec<f32>) -> kiln::Result<()> {
/// let program = client.compile(&kiln::read_graph("model.kgraph")?).await?;
/// let mut arguments: Vec<Argument> = vec![x.into()];
/// for (slot, constant) in kiln::read_constants("model.safetensors")? {
///     arguments.push(Argument::in_slot(slot, client.upload(constant).await?));
/// }
/// let results = program.run(arguments).await?;
/// # Ok(())
/// # }
/// ```
pub fn read_constants(path: impl AsRef<Path>) -> Result<BTreeMap<u32, Array>> {
    let path = path.as_ref();
    let data = std::fs::read(path).map_err(|why| bad_argument(format!("cannot read {}: {why}", path.display())))?;
    constants(data.into()).map_err(|why| bad_argument(format!("{}: {}", path.display(), why.message())))
}

pub(crate) fn constants(file: Bytes) -> Result<BTreeMap<u32, Array>> {
    let size = file.first_chunk().map(|size| u64::from_le_bytes(*size)).and_then(|size| usize::try_from(size).ok());
    let end = size.and_then(|size| size.checked_add(8)).filter(|end| *end <= file.len());
    let end = end.ok_or_else(|| bad_argument("it has no header of a .safetensors"))?;
    let header: Map<String, Value> = serde_json::from_slice(&file[8..end])
        .map_err(|why| bad_argument(format!("its header is not as it must be: {why}")))?;
    let data = file.slice(end..);
    let mut constants = BTreeMap::new();
    for (name, row) in header.iter().filter(|(name, _)| *name != "__metadata__") {
        let slot = name.split('_').next().and_then(|number| number.parse().ok());
        let slot = slot.ok_or_else(|| bad_argument(format!("{name:?} begins with no slot, as \"3_weight\" does")))?;
        if constants.insert(slot, constant(name, row, &data)?).is_some() {
            return Err(bad_argument(format!("slot {slot} is there twice")));
        }
    }
    Ok(constants)
}

fn constant(name: &str, row: &Value, data: &Bytes) -> Result<Array> {
    let bad = |what: &str| -> Error { bad_argument(format!("{name:?} {what}")) };
    let dtype = row["dtype"].as_str().and_then(dtype).ok_or_else(|| bad("is of a dtype that no array here is"))?;
    let sizes = |of: &Value| -> Option<Vec<usize>> {
        of.as_array()?.iter().map(|size| size.as_u64().and_then(|size| size.try_into().ok())).collect()
    };
    let shape = sizes(&row["shape"]).ok_or_else(|| bad("has no shape"))?;
    let Some([begin, end]) = sizes(&row["data_offsets"]).and_then(|offsets| <[usize; 2]>::try_from(offsets).ok())
    else {
        return Err(bad("does not say where its bytes are"));
    };
    if begin > end || end > data.len() {
        return Err(bad("has its bytes where there are none"));
    }
    Array::new(dtype, shape, data.slice(begin..end))
}

fn dtype(name: &str) -> Option<DType> {
    Some(match name {
        "BOOL" => DType::Bool,
        "U8" => DType::Uint8,
        "I8" => DType::Int8,
        "U16" => DType::Uint16,
        "I16" => DType::Int16,
        "U32" => DType::Uint32,
        "I32" => DType::Int32,
        "U64" => DType::Uint64,
        "I64" => DType::Int64,
        "F16" => DType::Float16,
        "BF16" => DType::BFloat16,
        "F32" => DType::Float32,
        "F64" => DType::Float64,
        "F8_E4M3" => DType::Float8E4M3,
        "F8_E5M2" => DType::Float8E5M2,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::ErrorCode;

    fn file(header: &str, data: &[u8]) -> Bytes {
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat().into()
    }

    #[test]
    fn constants_come_from_their_file() {
        let header = r#"{"__metadata__":{"by":"x"},"3_w":{"dtype":"F16","shape":[2,1],"data_offsets":[0,4]},
            "12_b_1":{"dtype":"I8","shape":[],"data_offsets":[4,5]}}  "#;
        let path = std::env::temp_dir().join(format!("kiln-constants-{}.safetensors", std::process::id()));
        std::fs::write(&path, file(header, &[0, 60, 0, 192, 7])).unwrap();
        let constants = read_constants(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let wanted = [
            (3, Array::new(DType::Float16, [2, 1], vec![0, 60, 0, 192]).unwrap()),
            (12, Array::new(DType::Int8, [], vec![7]).unwrap()),
        ];
        assert_eq!(constants, BTreeMap::from(wanted));
        assert_eq!(read_constants(&path).unwrap_err().code(), ErrorCode::BadArgument);
    }

    #[test]
    fn constants_that_cannot_be_are_refused() {
        let row = |name: &str, dtype: &str, shape: &str, offsets: &str| {
            file(&format!(r#"{{"{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}"#), &[1])
        };
        let one = r#"{"dtype":"I8","shape":[1],"data_offsets":[0,1]}"#;
        for bad in [
            Bytes::from_static(&[1, 2]),
            Bytes::from_static(&[255; 16]),
            file("{", &[]),
            file("[]", &[]),
            file(r#"{"1_w":null}"#, &[]),
            row("w", "I8", "[1]", "[0,1]"),
            row("4294967296_w", "I8", "[1]", "[0,1]"),
            row("1_w", "I7", "[1]", "[0,1]"),
            row("1_w", "I8", "[2]", "[0,2]"),
            row("1_w", "I8", "[1]", "[1,0]"),
            row("1_w", "I8", "[3]", "[0,1]"),
            row("1_w", "I8", "[-1]", "[0,1]"),
            row("1_w", "I8", "[1]", "[1]"),
            file(&format!(r#"{{"1_a":{one},"1_b":{one}}}"#), &[1]),
        ] {
            assert_eq!(constants(bad).unwrap_err().code(), ErrorCode::BadArgument);
        }
    }
}
