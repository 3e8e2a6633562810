//! Graphs of calls of the builder.

use kiln::{Graph, Operand, Tensor};
use prost::Message;
use serde_json::{Value, json};

use crate::{Answer, Failure, bad, encoded};

/// One call: its arguments, and what calls before it made.
struct Call<'g, 'a> {
    graph: &'g Graph,
    arguments: &'a [Value],
    values: &'a [Tensor<'g>],
}

impl<'g> Call<'g, '_> {
    /// What a call made ({"value": 3}), or a number: one with a point is a float.
    fn operand(&self, at: usize) -> Result<Operand<'g>, Failure> {
        let said = &self.arguments[at];
        if let Some(made) = said["value"].as_u64() {
            return Ok(self.values[made as usize].into());
        }
        said.as_i64()
            .map(Operand::Int)
            .or_else(|| said.as_f64().map(Operand::Float))
            .ok_or_else(|| bad(format!("{said} is no operand")))
    }

    fn tensor(&self, at: usize) -> Result<Tensor<'g>, Failure> {
        match self.operand(at)? {
            Operand::Tensor(tensor) => Ok(tensor),
            number => Err(bad(format!("{number:?} is no tensor"))),
        }
    }

    fn text(&self, at: usize) -> &str {
        self.arguments[at].as_str().unwrap_or_default()
    }

    fn numbers(&self, at: usize) -> Vec<i64> {
        self.arguments[at].as_array().into_iter().flatten().filter_map(Value::as_i64).collect()
    }

    fn sizes(&self, at: usize) -> Vec<usize> {
        self.numbers(at).into_iter().map(|size| size as usize).collect()
    }

    fn axes(&self, at: usize) -> Vec<isize> {
        self.numbers(at).into_iter().map(|axis| axis as isize).collect()
    }

    fn pairs(&self, at: usize) -> Vec<(usize, usize)> {
        let rows = self.arguments[at].as_array().into_iter().flatten();
        let one = |row: &Value, at: usize| row[at].as_u64().unwrap_or_default() as usize;
        rows.map(|row| (one(row, 0), one(row, 1))).collect()
    }

    fn axis(&self, at: usize) -> isize {
        self.arguments[at].as_i64().unwrap_or_default() as isize
    }

    fn made(&self, name: &str) -> Result<Tensor<'g>, Failure> {
        if name == "param" {
            return Ok(self.graph.param(self.text(0), self.text(2).parse()?, self.sizes(1)));
        }
        let x = self.tensor(0)?;
        Ok(match name {
            "output" => {
                self.graph.output(x);
                x
            }
            "update" => {
                self.graph.update(x, self.tensor(1)?);
                x
            }
            "cast" => x.cast(self.text(1).parse()?),
            "reshape" => x.reshape(self.numbers(1)),
            "permute" => x.permute(self.sizes(1)),
            "broadcast" => x.broadcast(self.sizes(1)),
            "pad" => x.pad(self.pairs(1), self.operand(2)?),
            "shrink" => x.shrink(self.pairs(1).into_iter().map(|(begin, end)| begin..end).collect::<Vec<_>>()),
            "flip" => x.flip(self.axis(1)),
            "sum" => x.sum(self.axes(1)),
            "max" => x.max(self.axes(1)),
            "matmul" => x.matmul(self.tensor(1)?),
            "softmax" => x.softmax(self.axis(1)),
            "where" => x.select(self.operand(1)?, self.operand(2)?),
            "add" => x + self.operand(1)?,
            "subtract" => x - self.operand(1)?,
            "multiply" => x * self.operand(1)?,
            "divide" => x / self.operand(1)?,
            "maximum" => x.maximum(self.operand(1)?),
            "less" => x.less(self.operand(1)?),
            "equal" => x.equal(self.operand(1)?),
            "negative" => -x,
            "exp" => x.exp(),
            "log" => x.log(),
            "sqrt" => x.sqrt(),
            "sin" => x.sin(),
            "reciprocal" => x.reciprocal(),
            "relu" => x.relu(),
            _ => return Err(bad(format!("build: there is no {name:?}"))),
        })
    }
}

pub fn build(ask: &Value) -> Answer {
    let graph = Graph::new();
    let mut values = Vec::new();
    for row in ask["calls"].as_array().into_iter().flatten() {
        let [name, arguments @ ..] = row.as_array().map_or(&[][..], Vec::as_slice) else {
            return Err(bad("a call without a name"));
        };
        let call = Call { graph: &graph, arguments, values: &values };
        let made = call.made(name.as_str().unwrap_or_default())?;
        values.push(made);
    }
    Ok(json!({"graph": encoded(graph.build()?.encode_to_vec())}))
}
