//! Files of graphs: .kgraph and .pb have the message as it travels, .txtpb its text (feature `text`). `kiln import` and
//! `kiln gradient` write .kgraph and .pb; [`read_constants`](crate::read_constants) reads what `kiln import` writes
//! beside a .kgraph.

use std::path::Path;

use prost::Message;

use crate::{Result, error::bad_argument, v1};

/// Reads a graph's file.
///
/// ```no_run
/// # async fn example(client: kiln::Client) -> kiln::Result<()> {
/// let program = client.compile(&kiln::read_graph("model.kgraph")?).await?;
/// # Ok(())
/// # }
/// ```
pub fn read_graph(path: impl AsRef<Path>) -> Result<v1::Graph> {
    let path = path.as_ref();
    let refused = |why: &dyn std::fmt::Display| bad_argument(format!("{} is no graph: {why}", path.display()));
    let data = std::fs::read(path).map_err(|why| bad_argument(format!("cannot read {}: {why}", path.display())))?;
    if is_text(path) {
        return text::read(&data).map_err(|why| refused(&why));
    }
    v1::Graph::decode(&data[..]).map_err(|why| refused(&why))
}

/// Writes a graph's file, as its name says.
pub fn write_graph(path: impl AsRef<Path>, graph: &v1::Graph) -> Result<()> {
    let path = path.as_ref();
    let refused = |why: &dyn std::fmt::Display| bad_argument(format!("cannot write {}: {why}", path.display()));
    let data = if is_text(path) { text::write(graph).map_err(|why| refused(&why))? } else { graph.encode_to_vec() };
    std::fs::write(path, data).map_err(|why| refused(&why))
}

fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "txtpb")
}

#[cfg(feature = "text")]
mod text {
    use prost::Message;
    use prost_reflect::{DescriptorPool, DynamicMessage, text_format::FormatOptions};

    use crate::v1;

    type Failure = Box<dyn std::error::Error>;

    fn pool() -> Result<prost_reflect::MessageDescriptor, Failure> {
        let pool = DescriptorPool::decode(&include_bytes!(concat!(env!("OUT_DIR"), "/kiln.bin"))[..])?;
        pool.get_message_by_name("kiln.v1.Graph").ok_or_else(|| "it is not described".into())
    }

    pub fn read(data: &[u8]) -> Result<v1::Graph, Failure> {
        let message = DynamicMessage::parse_text_format(pool()?, std::str::from_utf8(data)?)?;
        Ok(v1::Graph::decode(&message.encode_to_vec()[..])?)
    }

    pub fn write(graph: &v1::Graph) -> Result<Vec<u8>, Failure> {
        let message = DynamicMessage::decode(pool()?, &graph.encode_to_vec()[..])?;
        let how = FormatOptions::new().pretty(true);
        Ok(message.to_text_format_with_options(&how).into_bytes())
    }
}

#[cfg(not(feature = "text"))]
mod text {
    use crate::v1;

    const WHY: &str = "this program was built without texts of graphs: the feature `text`";

    pub fn read(_: &[u8]) -> Result<v1::Graph, &'static str> {
        Err(WHY)
    }

    pub fn write(_: &v1::Graph) -> Result<Vec<u8>, &'static str> {
        Err(WHY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType::Float32, Graph, v1::ErrorCode};

    #[test]
    fn graphs_come_back_from_files() {
        let graph = Graph::new();
        graph.output(graph.param("x", Float32, [2, 3]) * 2.5);
        let built = graph.build().unwrap();
        let folder = std::env::temp_dir().join(format!("kiln-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["graph.kgraph", "graph.pb", "graph.txtpb"] {
            let path = folder.join(name);
            let written = write_graph(&path, &built);
            if cfg!(feature = "text") || !name.ends_with("txtpb") {
                written.unwrap();
                assert_eq!(read_graph(&path).unwrap(), built, "{name}");
            } else {
                assert_eq!(written.unwrap_err().code(), ErrorCode::BadArgument);
            }
        }
        std::fs::write(folder.join("bad.pb"), b"\xff\xff").unwrap();
        for name in ["none.pb", "bad.pb"] {
            assert_eq!(read_graph(folder.join(name)).unwrap_err().code(), ErrorCode::BadArgument);
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
