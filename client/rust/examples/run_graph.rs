//! Runs a model's graph on zeros, with the constants that lie beside it, and says what comes of it.
//!
//!     kiln import model.onnx -o model.kgraph
//!     cargo run --example run_graph -- model.kgraph

use kiln::{Argument, Array, Client, Error};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let client = Client::builder().connect().await?;
    let program = client.compile(&kiln::read_graph(&path)?).await?;
    let signature = program.signature();
    let constants = kiln::read_constants(std::path::Path::new(&path).with_extension("safetensors"))?;
    let mut arguments: Vec<Argument> = constants.iter().map(|(slot, value)| Argument::in_slot(*slot, value)).collect();
    for row in signature.parameters.iter().filter(|row| !constants.contains_key(&row.slot)) {
        let dtype = row.dtype().as_str_name().to_lowercase().parse()?;
        let shape: Vec<usize> = row.shape.iter().map(|size| *size as usize).collect();
        println!("{} is {dtype} {shape:?}", row.name);
        let zeros = Array::new(dtype, shape, vec![0; row.bytes as usize])?;
        arguments.push(Argument::in_slot(row.slot, zeros));
    }
    for row in &signature.variables {
        arguments.push(Argument::in_slot(row.slot, row.min_value));
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
