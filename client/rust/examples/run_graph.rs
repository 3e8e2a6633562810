//! Runs a graph of a file, as `kiln import model.onnx` writes it, on zeros, and says what comes of it.
//!
//!     cargo run --example run_graph -- model.kgraph

use kiln::{Argument, Array, Client, Error};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let client = Client::builder().connect().await?;
    let program = client.compile(&kiln::read_graph(path)?).await?;
    let signature = program.signature();
    let mut arguments = Vec::new();
    for row in &signature.parameters {
        let dtype = row.dtype().as_str_name().to_lowercase().parse()?;
        let shape: Vec<usize> = row.shape.iter().map(|size| *size as usize).collect();
        println!("{} is {dtype} {shape:?}", row.name);
        let zeros = Array::new(dtype, shape, vec![0; row.bytes as usize])?;
        arguments.push(Argument::named(&row.name, zeros));
    }
    for row in &signature.variables {
        arguments.push(Argument::named(&row.name, row.min_value));
    }
    let results: Vec<Array> = program.run(arguments).await.inspect_err(|error: &Error| {
        if let Some(slot) = error.slot() {
            eprintln!("the argument of slot {slot} is at fault");
        }
    })?;
    for result in results {
        println!("a result is {} {:?}", result.dtype(), result.shape());
    }
    client.close().await;
    Ok(())
}
