package main

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"kiln"
)

// call is one call of the builder: its arguments, and what calls before it made.
type call struct {
	graph     *kiln.Graph
	arguments []json.RawMessage
	values    []kiln.Tensor
	err       error
}

// builders are what `build` may call.
var builders = map[string]func(*call) kiln.Tensor{
	"param": func(c *call) kiln.Tensor {
		dtype, err := kiln.DTypeOf(argumentOf[string](c, 2))
		c.err = err
		return c.graph.Param(argumentOf[string](c, 0), dtype, argumentOf[[]int64](c, 1)...)
	},
	"output": func(c *call) kiln.Tensor { c.graph.Output(c.tensor(0)); return kiln.Tensor{} },
	"update": func(c *call) kiln.Tensor { c.graph.Update(c.tensor(0), c.tensor(1)); return kiln.Tensor{} },
	"cast": func(c *call) kiln.Tensor {
		dtype, err := kiln.DTypeOf(argumentOf[string](c, 1))
		c.err = err
		return c.tensor(0).Cast(dtype)
	},
	"reshape":    func(c *call) kiln.Tensor { return c.tensor(0).Reshape(argumentOf[[]int64](c, 1)...) },
	"permute":    func(c *call) kiln.Tensor { return c.tensor(0).Permute(argumentOf[[]int](c, 1)...) },
	"broadcast":  func(c *call) kiln.Tensor { return c.tensor(0).Broadcast(argumentOf[[]int64](c, 1)...) },
	"pad":        func(c *call) kiln.Tensor { return c.tensor(0).Pad(c.operand(2), argumentOf[[][2]int64](c, 1)...) },
	"shrink":     func(c *call) kiln.Tensor { return c.tensor(0).Shrink(argumentOf[[][2]int64](c, 1)...) },
	"flip":       func(c *call) kiln.Tensor { return c.tensor(0).Flip(argumentOf[int](c, 1)) },
	"sum":        func(c *call) kiln.Tensor { return c.tensor(0).Sum(argumentOf[[]int](c, 1)...) },
	"max":        func(c *call) kiln.Tensor { return c.tensor(0).Max(argumentOf[[]int](c, 1)...) },
	"matmul":     func(c *call) kiln.Tensor { return c.tensor(0).MatMul(c.tensor(1)) },
	"softmax":    func(c *call) kiln.Tensor { return c.tensor(0).Softmax(argumentOf[int](c, 1)) },
	"where":      func(c *call) kiln.Tensor { return c.tensor(0).Where(c.operand(1), c.operand(2)) },
	"add":        func(c *call) kiln.Tensor { return c.tensor(0).Add(c.operand(1)) },
	"subtract":   func(c *call) kiln.Tensor { return c.tensor(0).Sub(c.operand(1)) },
	"multiply":   func(c *call) kiln.Tensor { return c.tensor(0).Mul(c.operand(1)) },
	"divide":     func(c *call) kiln.Tensor { return c.tensor(0).Div(c.operand(1)) },
	"maximum":    func(c *call) kiln.Tensor { return c.tensor(0).Maximum(c.operand(1)) },
	"less":       func(c *call) kiln.Tensor { return c.tensor(0).Less(c.operand(1)) },
	"equal":      func(c *call) kiln.Tensor { return c.tensor(0).Equal(c.operand(1)) },
	"negative":   func(c *call) kiln.Tensor { return c.tensor(0).Neg() },
	"exp":        func(c *call) kiln.Tensor { return c.tensor(0).Exp() },
	"log":        func(c *call) kiln.Tensor { return c.tensor(0).Log() },
	"sqrt":       func(c *call) kiln.Tensor { return c.tensor(0).Sqrt() },
	"sin":        func(c *call) kiln.Tensor { return c.tensor(0).Sin() },
	"reciprocal": func(c *call) kiln.Tensor { return c.tensor(0).Reciprocal() },
	"relu":       func(c *call) kiln.Tensor { return c.tensor(0).Relu() },
}

func argumentOf[T any](c *call, at int) T {
	var value T
	if err := json.Unmarshal(c.arguments[at], &value); err != nil && c.err == nil {
		c.err = err
	}
	return value
}

// operand is what a call made ({"value": 3}), or a number: one with a point is a float.
func (c *call) operand(at int) kiln.Operand {
	var made struct{ Value *int }
	if json.Unmarshal(c.arguments[at], &made) == nil && made.Value != nil {
		return c.values[*made.Value]
	}
	var whole int
	if json.Unmarshal(c.arguments[at], &whole) == nil {
		return whole
	}
	return argumentOf[float64](c, at)
}

func (c *call) tensor(at int) kiln.Tensor {
	tensor, _ := c.operand(at).(kiln.Tensor)
	return tensor
}

func build(_ *adapter, _ context.Context, r *ask) (answer, error) {
	graph := kiln.NewGraph()
	var values []kiln.Tensor
	for _, row := range r.Calls {
		var name string
		if err := json.Unmarshal(row[0], &name); err != nil {
			return nil, err
		}
		one := &call{graph: graph, arguments: row[1:], values: values}
		of, is := builders[name]
		if !is {
			return nil, fmt.Errorf("build: there is no %q", name)
		}
		values = append(values, of(one))
		if one.err != nil {
			return nil, one.err
		}
	}
	message, err := graph.Build()
	if err != nil {
		return nil, err
	}
	data, err := proto.Marshal(message)
	return answer{"graph": data}, err
}
