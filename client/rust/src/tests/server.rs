//! With a real server, where KILN_ADDR names it.

use std::{env, time::Duration};

use super::soon;
use crate::{
    Argument, Array, Client, Conv2d,
    DType::{self, *},
    Element, Graph, Status, Tensor, args, number, round,
    v1::{ErrorCode, TraceRequest, debug_service},
};

/// None where there is no server: the test says nothing then.
async fn connected() -> Option<Client> {
    env::var_os("KILN_ADDR")?;
    Some(Client::builder().timeout(super::FOR_EVER).connect().await.unwrap())
}

/// The first result of a graph.
async fn ran<T: Element>(client: &Client, graph: &Graph, arguments: Vec<Argument>) -> Vec<T> {
    let program = client.compile(graph).await.unwrap();
    program.run(arguments).await.unwrap()[0].to_vec().unwrap()
}

fn counted(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at % 7) as f32 - 3.0).collect()
}

fn shaped(values: Vec<f32>, shape: &[usize]) -> Array {
    Array::from_vec(values, shape).unwrap()
}

#[tokio::test]
async fn a_convolution_is_its_definition() {
    let Some(client) = connected().await else { return };
    const N: usize = 2;
    const C: usize = 3;
    const H: usize = 7;
    const W: usize = 6;
    const O: usize = 4;
    const KH: usize = 3;
    const KW: usize = 2;
    let (x, weight) = (counted(N * C * H * W), counted(O * C * KH * KW));
    for stride in 1..=3 {
        let graph = Graph::new();
        let (images, filters) = (graph.param("x", Float32, [N, C, H, W]), graph.param("w", Float32, [O, C, KH, KW]));
        graph.output(images.conv2d(filters, Conv2d { stride: [stride; 2], padding: [1, 1] }));
        let mut wanted = Vec::new();
        for place in 0..N * O {
            let (image, out) = (place / O, place % O);
            for top in (0..=H + 2 - KH).step_by(stride) {
                for left in (0..=W + 2 - KW).step_by(stride) {
                    let parts = (0..C * KH * KW).map(|at| {
                        let (inner, y, z) = (at / (KH * KW), top + at / KW % KH, left + at % KW);
                        let is_inside = (1..=H).contains(&y) && (1..=W).contains(&z);
                        let ink = || x[((image * C + inner) * H + y - 1) * W + z - 1];
                        if is_inside { ink() * weight[out * C * KH * KW + at] } else { 0.0 }
                    });
                    wanted.push(parts.sum::<f32>());
                }
            }
        }
        let given = args![shaped(x.clone(), &[N, C, H, W]), shaped(weight.clone(), &[O, C, KH, KW])];
        assert_eq!(ran::<f32>(&client, &graph, given).await, wanted, "stride {stride}");
    }
}

/// Sums of narrow floats leave their range, or stand still at 2^11 ones, unless they are wide until the end.
#[tokio::test]
async fn narrow_floats_are_wide_within() {
    let Some(client) = connected().await else { return };
    for dtype in [Float16, BFloat16, Float8E4M3, Float8E5M2] {
        let graph = Graph::new();
        let (ones, zeros) = (graph.full(dtype, 1.0, [100_000]), graph.full(dtype, 0.0, [70_000]));
        for x in [ones.mean([]), zeros.log_softmax(0).max([]), zeros.softmax(0).max([])] {
            graph.output(x.cast(Float64));
        }
        let results = client.compile(&graph).await.unwrap().run::<i32>([]).await.unwrap();
        for (result, exact) in results.iter().zip([1.0, -(70_000f64.ln()), 1.0 / 70_000.0]) {
            assert_eq!(result.item::<f64>().unwrap(), number(dtype, round(dtype, exact)), "{dtype}");
        }
    }
}

#[tokio::test]
async fn pooling_calls_and_places() {
    let Some(client) = connected().await else { return };
    let graph = Graph::new();
    graph.output(graph.param("x", Float32, [1, 1, 4, 5]).max_pool2d(2, 2));
    let x = vec![1., 2., 3., 4., 9., 5., 6., 7., 8., 9., 0., 0., -1., -2., 9., 0., 1., -3., -4., 9.];
    let given = args![shaped(x, &[1, 1, 4, 5])];
    assert_eq!(ran::<f32>(&client, &graph, given).await, [6., 8., 1., -1.], "the greatest of windows");

    let body = Graph::new();
    body.output(body.param("a", Float32, [3]) * body.param("b", Float32, [3]));
    let graph = Graph::new();
    let y = graph.param("x", Float32, [3]);
    let once = graph.call(&body, &[y, y])[0];
    graph.output(graph.call(&body, &[once, y])[0]);
    assert_eq!(ran::<f32>(&client, &graph, args![vec![1f32, 2., 3.]]).await, [1., 8., 27.], "a function of a function");

    let greatest = |of: fn(Tensor<'_>) -> Tensor<'_>, shape: &'static [usize]| {
        let graph = Graph::new();
        graph.output(of(graph.param("x", Float32, shape)));
        graph
    };
    let graph = greatest(|x| x.argmax(-1), &[2, 3]);
    let rows = args![shaped(vec![1., 5., 5., 7., 2., 3.], &[2, 3])];
    assert_eq!(ran::<i32>(&client, &graph, rows).await, [1, 0], "the first of the greatest");
    let graph = greatest(|x| x.argmax(0), &[4]);
    let row = args![vec![1., f32::NAN, 9., f32::NAN]];
    assert_eq!(ran::<i32>(&client, &graph, row).await, [1], "the first that is no number");

    let graph = Graph::new();
    graph.output(graph.arange(Int64, 11));
    graph.output(graph.param("x", Float32, [2, 2]).transpose().mean([0]).detach());
    let given = args![shaped(vec![1., 2., 3., 5.], &[2, 2])];
    assert_eq!(ran::<i64>(&client, &graph, given).await, (0..11).collect::<Vec<i64>>(), "numbers in a row");
}

#[tokio::test]
async fn numbers_stand_on_both_sides() {
    let Some(client) = connected().await else { return };
    let graph = Graph::new();
    let x = graph.param("x", Int32, [3]);
    graph.output(10 - x * 2 / 3 + -x);
    assert_eq!(ran::<i32>(&client, &graph, args![vec![1, 5, -1]]).await, [9, 2, 12]);
    let graph = Graph::new();
    graph.output(1.0 / graph.param("x", Float64, [2]) - 0.5);
    assert_eq!(ran::<f64>(&client, &graph, args![vec![2.0, 0.25]]).await, [0.0, 3.5]);
}

#[tokio::test]
async fn arguments_by_name() {
    let Some(client) = connected().await else { return };
    let graph = Graph::new();
    graph.output(graph.param("x", Int32, [2]) - graph.param("y", Int32, [2]));
    let (five, two) = (Array::from([5, 5]), Array::from([2, 2]));
    assert_eq!(ran::<i32>(&client, &graph, args!["y" => &two, "x" => &five]).await, [3, 3]);
    assert_eq!(ran::<i32>(&client, &graph, args![&five, "y" => &two]).await, [3, 3]);
    let program = client.compile(&graph).await.unwrap();
    for (what, given, code) in [
        ("unknown", args!["z" => &two], ErrorCode::UnknownArgument),
        ("too many", args![&two, &two, &two], ErrorCode::UnknownArgument),
        ("twice", args![&two, "x" => &two], ErrorCode::BadArgument),
        ("missing", args![&two], ErrorCode::MissingArgument),
    ] {
        assert_eq!(program.run(given).await.unwrap_err().code(), code, "{what}");
    }
}

/// Arrays of more than a message go through buffers, and come so.
#[tokio::test]
async fn large_arrays() {
    let Some(client) = connected().await else { return };
    let count = 3 << 20;
    let graph = Graph::new();
    let x = graph.param("x", Float32, [count]);
    graph.output(x + 1);
    let values = counted(count);
    let made = ran::<f32>(&client, &graph, args![values.clone()]).await;
    assert!(made.iter().zip(&values).all(|(one, other)| *one == other + 1.0));
    assert_eq!(made.len(), count);
    let buffer = client.upload(values.clone()).await.unwrap();
    let mut chunks = buffer.chunks(4, buffer.bytes() - 4).await.unwrap();
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await.unwrap() {
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(Array::new(Float32, [count - 1], bytes).unwrap(), Array::from(&values[1..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_tasks_share_a_client_and_its_stream() {
    let Some(client) = connected().await else { return };
    let graph = Graph::new();
    let x = graph.param("x", Int32, [4]);
    graph.update(x, x + 1);
    let program = client.compile(&graph).await.unwrap();
    let stream = client.stream().unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|start| {
            let (stream, program) = (stream.clone(), program.clone());
            tokio::spawn(async move {
                let buffer = stream.upload([start, 0, 0, 0]).await?;
                for _ in 0..50 {
                    stream.run(&program, [&buffer]).await?;
                }
                stream.read(&buffer).await?.await?.to_vec::<i32>()
            })
        })
        .collect();
    for (start, task) in tasks.into_iter().enumerate() {
        assert_eq!(soon(task).await.unwrap().unwrap(), [start as i32 + 50, 50, 50, 50]);
    }
    soon(stream.fence()).await.unwrap();
    soon(client.close()).await;
}

#[tokio::test]
async fn buffers_are_filled_copied_and_given_up() {
    let Some(client) = connected().await else { return };
    let (one, other) = (client.allocate(16).await.unwrap(), client.zeros(Int64, [2]).await.unwrap());
    one.fill(vec![7]).await.unwrap();
    other.copy_from(&one).await.unwrap();
    assert_eq!(one.read().await.unwrap(), Array::from(vec![7u8; 16]));
    assert_eq!(other.read().await.unwrap(), Array::from([0x0707_0707_0707_0707i64; 2]));
    let past = other.read().timeout(Duration::ZERO).await.unwrap_err();
    assert_eq!(past.status(), Status::DeadlineExceeded);
    let handle = other.handle();
    drop(other);
    let request = crate::v1::DescribeBufferRequest { handle };
    soon(async {
        let describe = crate::v1::buffer_service::DESCRIBE;
        while client.call(describe, request).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    one.free().await.unwrap();
    let gone = one.read().await.unwrap_err();
    assert_eq!(gone.status(), Status::NotFound);
}

#[tokio::test]
async fn a_dtype_a_device_and_a_protocol() {
    let Some(client) = connected().await else { return };
    assert!(client.has("sessions") && client.features().count() > 5 && !client.server_version().is_empty());
    let device = &client.devices()[0];
    let chosen = Client::builder().device(device).lease(Duration::ZERO).connect().await.unwrap();
    assert_eq!(chosen.stream().unwrap_err().code(), ErrorCode::NotImplemented);
    let buffer = chosen.upload(vec![1.5f32]).await.unwrap();
    assert_eq!((buffer.device(), buffer.dtype()), (device.as_str(), Some(DType::Float32)));
    buffer.free().await.unwrap();
    let unknown = Client::builder().device("TPU:9").connect().await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::UnknownDevice);
}

#[tokio::test]
async fn a_trace_is_joined() {
    let Some(client) = connected().await else { return };
    let id = "0af7651916cd43dd8448eb211c80319d";
    client.allocate(16).traceparent(format!("00-{id}-b7ad6b7169203331-01")).await.unwrap();
    let traces = client.call(debug_service::TRACE, TraceRequest::default()).await.unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(traces.calls.iter().any(|call| hex(&call.trace_id) == id), "none of {} calls", traces.calls.len());
}

#[tokio::test]
async fn devices_are_watched() {
    let Some(client) = connected().await else { return };
    let request = crate::v1::WatchDevicesRequest {};
    let mut answers = client.listen(crate::v1::device_service::WATCH, request).await.unwrap();
    let first = soon(answers.next()).await.unwrap().unwrap();
    assert!(client.devices().contains(&first.device.unwrap().name));
}
