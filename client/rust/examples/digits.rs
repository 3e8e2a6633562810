//! Handwritten digits: a small network learns 1,437 of them on the server, and reads 360 that it has not seen.
//!
//!     ./dev run & cargo run --example digits      in client/rust; KILN_ADDR: another server than localhost:7437
//!
//! A step, from the batch to the new weights, is one program there. The gradient is made once, by the server, as a
//! graph.

use std::{f64::consts::TAU, fs};

use kiln::{Argument, Array, Buffer, Client, DType::Float32, Graph, Program, Result, Tensor, args, v1};

const IMAGES: usize = 1797;
const PIXELS: usize = 64;
const CLASSES: usize = 10;
const TRAINED: usize = 1437;
const BATCH: usize = 64;
const HIDDEN: usize = 64;
const EPOCHS: usize = 15;
const RATE: f32 = 0.5;

/// Of the weights, which have slots 0 to 3 in every graph. Images have slot 4; for each the digit, as ten numbers, slot
/// 5.
const SHAPES: [&[usize]; 4] = [&[PIXELS, HIDDEN], &[HIDDEN], &[HIDDEN, CLASSES], &[CLASSES]];

fn logits(graph: &Graph, count: usize) -> (Tensor<'_>, [Tensor<'_>; 4]) {
    let mut slots = 0u32..;
    let w = SHAPES.map(|shape| {
        let slot = slots.next().unwrap_or_default();
        graph.param_at(slot, &format!("w{slot}"), Float32, shape)
    });
    let x = graph.param_at(4, "x", Float32, [count, PIXELS]);
    ((x.matmul(w[0]) + w[1]).relu().matmul(w[2]) + w[3], w)
}

/// A program that lowers the loss: every weight goes against its gradient, in place.
async fn step(client: &Client) -> Result<Program> {
    let loss = Graph::new();
    let (guesses, _) = logits(&loss, BATCH);
    let digits = loss.param_at(5, "digits", Float32, [BATCH, CLASSES]);
    loss.output((guesses.log_softmax(-1) * digits).sum([]) * (-1.0 / BATCH as f32));
    let asked = v1::GradientRequest { wrt_slot: vec![0, 1, 2, 3], include_results: true, ..Default::default() };
    let gradient = client.gradient_with(&loss, asked).await?;
    let graph = Graph::new();
    let (_, weights) = logits(&graph, BATCH);
    graph.param_at(5, "digits", Float32, [BATCH, CLASSES]);
    let values = graph.append(&gradient);
    graph.output(values[0]);
    for (weight, slope) in weights.into_iter().zip(&values[1..]) {
        graph.update(weight, weight - *slope * RATE);
    }
    client.compile(&graph).await
}

/// Numbers by chance, always the same.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn normal(&mut self) -> f64 {
        let [one, other] = [self.next(), self.next()].map(|number| (number as f64 + 1.0) / 2f64.powi(31));
        (-2.0 * one.ln()).sqrt() * (TAU * other).cos()
    }
}

/// The first weights: numbers by chance for matrices, zeros for the rest.
async fn begin(client: &Client) -> Result<Vec<Buffer>> {
    let (mut chance, mut weights) = (Chance(2), Vec::new());
    for shape in SHAPES {
        let scale = if shape.len() > 1 { (2.0 / shape[0] as f64).sqrt() } else { 0.0 };
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| (chance.normal() * scale) as f32).collect();
        weights.push(client.upload(Array::from_vec(values, shape)?).await?);
    }
    Ok(weights)
}

/// What is in two .npy files, in an order by chance: images, digits as ten numbers each, and digits.
fn data() -> std::io::Result<(Vec<f32>, Vec<f32>, Vec<i32>)> {
    let read = |name: &str| fs::read(format!("{}/../demo/data/{name}.npy", env!("CARGO_MANIFEST_DIR")));
    let (images, labels) = (read("digits_images")?, read("digits_labels")?);
    let (images, labels) = (&images[images.len() - IMAGES * PIXELS..], &labels[labels.len() - IMAGES..]);
    let (mut chance, mut order) = (Chance(1), (0..IMAGES).collect::<Vec<_>>());
    (1..IMAGES).for_each(|at| order.swap(at, chance.next() as usize % (at + 1)));
    let ink = order.iter().flat_map(|row| &images[row * PIXELS..(row + 1) * PIXELS]);
    let digits = order.iter().flat_map(|row| (0..CLASSES).map(|digit| f32::from(digit == labels[*row] as usize)));
    let names = order.iter().map(|row| labels[*row].into());
    Ok((ink.map(|ink| f32::from(*ink) / 16.0).collect(), digits.collect(), names.collect()))
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let client = Client::builder().connect().await?;
    let (x, digits, labels) = data()?;
    let (weights, program) = (begin(&client).await?, step(&client).await?);
    let with = |more: Vec<Argument>| weights.iter().map(Argument::from).chain(more).collect::<Vec<_>>();
    for epoch in 1..=EPOCHS {
        let mut total = 0.0;
        for (x, digits) in
            x.chunks_exact(BATCH * PIXELS).zip(digits.chunks_exact(BATCH * CLASSES)).take(TRAINED / BATCH)
        {
            let x = Array::from_slice(x, [BATCH, PIXELS])?;
            let digits = Array::from_slice(digits, [BATCH, CLASSES])?;
            total += program.run(with(args![x, digits])).await?[0].item::<f32>()?;
        }
        println!("epoch {epoch:2}   loss {:.4}", total / (TRAINED / BATCH) as f32);
    }
    let (graph, unseen) = (Graph::new(), IMAGES - TRAINED);
    graph.output(logits(&graph, unseen).0.argmax(-1));
    let x = Array::from_slice(&x[TRAINED * PIXELS..], [unseen, PIXELS])?;
    let read = client.compile(&graph).await?.run(with(args![x])).await?[0].to_vec::<i32>()?;
    let right = read.iter().zip(&labels[TRAINED..]).filter(|(digit, label)| digit == label).count();
    println!("read {right} of {unseen}: {:.4}", right as f64 / unseen as f64);
    client.close().await;
    Ok(())
}
