use super::*;
use crate::{Conv2d, DType::*};

#[test]
fn the_first_mistake_is_told() {
    use ErrorCode::*;
    type Row = (&'static str, ErrorCode, for<'g> fn(&'g Graph, Tensor<'g>) -> Tensor<'g>);
    let rows: [Row; 19] = [
        ("shapes", ShapeMismatch, |g, x| x + g.full(Float32, 1, [5])),
        ("dtypes", DtypeMismatch, |g, x| x + g.full(Int32, 1, [3])),
        ("a number", BadArgument, |_, x| x.cast(Int8) + 300),
        ("a number on the left", BadArgument, |_, x| 0.5 * x.cast(Int8)),
        ("two numbers", BadArgument, |_, x| x.less(0).select(1, 2)),
        ("an axis", ShapeMismatch, |_, x| x.sum([2])),
        ("an axis before the first", ShapeMismatch, |_, x| x.softmax(-3)),
        ("no order", BadArgument, |_, x| x.permute([0, 0])),
        ("a size", ShapeMismatch, |_, x| x.reshape([4, -1])),
        ("two sizes left", ShapeMismatch, |_, x| x.reshape([-1, -1])),
        ("a negative size", ShapeMismatch, |_, x| x.reshape([-2, -3])),
        ("a box", ShapeMismatch, |_, x| x.shrink([0..3, 1..4])),
        ("a name", BadArgument, |g, _| g.param("x", Float32, [2])),
        ("a slot", ShapeMismatch, |g, _| g.param_at(0, "x", Float32, [4])),
        ("no matrix", ShapeMismatch, |_, x| x.matmul(x)),
        ("no float", DtypeMismatch, |_, x| x.cast(Int32).exp()),
        ("no image", ShapeMismatch, |_, x| x.conv2d(x, Conv2d::default())),
        ("no argument", MissingArgument, |g, _| g.call(&twice(), &[])[0]),
        ("too much", SizeOverflow, |_, x| x.reshape([2, 3, 1]).broadcast([2, 3, usize::MAX])),
    ];
    for (name, code, make) in rows {
        let graph = Graph::new();
        let made = make(&graph, graph.param("x", Float32, [2, 3]));
        let after = (made * 2).softmax(0).max_pool2d(2, 2).reshape([-1]).transpose().pad([], 0).flip(7);
        graph.output(after.less(1).select(1, made));
        assert_eq!(graph.build().unwrap_err().code(), code, "{name}");
        assert_eq!(made.shape().unwrap_err().code(), code, "{name}");
    }
}

#[test]
fn a_tensor_of_another_graph_is_none_of_this() {
    let (graph, other) = (Graph::new(), Graph::new());
    graph.output(graph.param("x", Float32, [3]) + other.param("x", Float32, [3]));
    assert_eq!(graph.build().unwrap_err().code(), ErrorCode::BadArgument);
}

fn twice() -> Graph {
    let body = Graph::new();
    body.output(body.param("x", Float32, [2, 3]) * 2);
    body
}

#[test]
fn a_graph_of_nothing_is_none() {
    assert_eq!(Graph::new().build().unwrap_err().code(), ErrorCode::BadRoot);
}

#[test]
fn equal_nodes_are_one() {
    let graph = Graph::new();
    let x = graph.param("x", Float32, [4]);
    graph.output((x + 1) * (x + 1));
    x.exp(); // needed by nothing
    // x and 1 with two sizes and three shapes, and how 1 is stretched; the sum, the product, the root.
    assert_eq!(graph.build().unwrap().nodes.len(), 11);
}

#[test]
fn shapes_do_not_overflow() {
    let large = usize::MAX / 2;
    let cases: [for<'g> fn(Tensor<'g>, usize) -> Tensor<'g>; 4] = [
        |x, large| x.pad([(large, large), (large, large)], 0),
        |x, large| x.reshape([large, 4, large]),
        |x, large| {
            x.reshape([1, 1, 2, 3]).conv2d(x.reshape([1, 1, 2, 3]), Conv2d { stride: [large; 2], ..Conv2d::default() })
        },
        |x, large| {
            x.reshape([1, 1, 2, 3]).conv2d(x.reshape([1, 1, 2, 3]), Conv2d { padding: [large; 2], ..Conv2d::default() })
        },
    ];
    for (at, case) in cases.into_iter().enumerate() {
        let graph = Graph::new();
        let made = case(graph.param("x", Int8, [2, 3]), large);
        assert!(made.shape().is_err(), "case {at}");
    }
}

#[test]
fn a_gradient_that_cannot_be() {
    let node = |op, src: &[u32]| uop(op, src, None);
    for (name, nodes) in [
        ("a root's source", vec![node(Op::Tuple, &[9])]),
        ("a nameless parameter", vec![node(Op::Param, &[]), node(Op::Tuple, &[0])]),
        ("a source that is itself", vec![node(Op::Neg, &[0]), node(Op::Tuple, &[0])]),
        ("a result that is no tensor", vec![node(Op::Const, &[]), node(Op::Tuple, &[0])]),
        ("nothing", vec![]),
    ] {
        let graph = Graph::new();
        graph.param("x", Float32, [4]);
        let results = vec![v1::signature::Result::default()];
        let made = graph.append(&v1::GradientResponse { graph: Some(v1::Graph { nodes, dialect: 0 }), results });
        assert_eq!(made.len(), 1);
        assert!(graph.build().unwrap_err().code() != ErrorCode::Unspecified, "{name}");
        assert!(made[0].shape().is_err(), "{name}");
    }
}

#[test]
fn a_view_of_nothing_is_no_parameter() {
    let graph = Graph::new();
    let nodes = vec![uop(Op::Reshape, [], None), uop(Op::Tuple, [0], None)];
    let results = vec![v1::signature::Result { dtype: Float32.wire(), shape: vec![4], ..Default::default() }];
    let made = graph.append(&v1::GradientResponse { graph: Some(v1::Graph { nodes, dialect: 0 }), results });
    graph.update(made[0], graph.param("x", Float32, [4]));
    assert_eq!(graph.build().unwrap_err().code(), ErrorCode::BadArgument);
}

#[test]
fn a_graph_may_be_shared_by_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Graph>();
    shared::<Tensor<'static>>();
}
