// Handwritten digits: a small network learns 1,437 of them on the server, and reads 360 that it has not seen.
//
//	./dev run & go run ./examples/digits      in client/go; KILN_ADDR: another server than localhost:7437
//
// A step, from the batch to the new weights, is one program there. The server makes the gradient once, as a graph.
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"

	"kiln"
	kilnv1 "kiln/v1"
)

const (
	images, pixels, classes = 1797, 64, 10
	trained, batch, hidden  = 1437, 64, 64
	epochs, rate            = 15, 0.5
)

// Of the weights, which have slots 0 to 3 in every graph. Images have slot 4; their digits, ten numbers each, slot 5.
var shapes = [][]int64{{pixels, hidden}, {hidden}, {hidden, classes}, {classes}}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func logits(g *kiln.Graph, count int64) (kiln.Tensor, []kiln.Tensor) {
	var w []kiln.Tensor
	for slot, shape := range shapes {
		w = append(w, g.ParamAt(uint32(slot), fmt.Sprint("w", slot), kiln.Float32, shape...))
	}
	x := g.ParamAt(4, "x", kiln.Float32, count, pixels)
	return x.MatMul(w[0]).Add(w[1]).Relu().MatMul(w[2]).Add(w[3]), w
}

// step is a program that lowers the loss: every weight goes against its gradient, in place.
func step(ctx context.Context, client *kiln.Client) *kiln.Program {
	loss := kiln.NewGraph()
	guesses, _ := logits(loss, batch)
	digits := loss.ParamAt(5, "digits", kiln.Float32, batch, classes)
	loss.Output(guesses.LogSoftmax(-1).Mul(digits).Sum().Mul(-1.0 / batch))
	gradient := must(client.Gradient(ctx, loss, []uint32{0, 1, 2, 3}, &kilnv1.GradientRequest{IncludeResults: true}))
	g := kiln.NewGraph()
	_, weights := logits(g, batch)
	g.ParamAt(5, "digits", kiln.Float32, batch, classes)
	values := g.Append(gradient)
	g.Output(values[0])
	for at, weight := range weights {
		g.Update(weight, weight.Sub(values[1+at].Mul(rate)))
	}
	return must(client.Compile(ctx, g, nil))
}

// begin makes the first weights: numbers by chance for matrices, zeros for the rest.
func begin(ctx context.Context, client *kiln.Client) (weights []kiln.Argument) {
	random := rand.New(rand.NewPCG(2, 2))
	for _, shape := range shapes {
		values := make([]float32, shape[0]*append(shape, 1)[1])
		for at := range values {
			values[at] = float32(random.NormFloat64() * math.Sqrt(2/float64(shape[0])) * float64(len(shape)-1))
		}
		weights = append(weights, must(client.Upload(ctx, must(kiln.ArrayOf(values, shape...)))))
	}
	return weights
}

// data reads what is in two .npy files, in an order by chance that is always the same; digits also as ten numbers each.
func data(folder string) (x, digits []float32, labels []int32) {
	pictures := must(os.ReadFile(folder + "/digits_images.npy"))
	names := must(os.ReadFile(folder + "/digits_labels.npy"))
	pictures, names = pictures[len(pictures)-images*pixels:], names[len(names)-images:]
	for _, row := range rand.New(rand.NewPCG(1, 1)).Perm(images) {
		for _, ink := range pictures[row*pixels : (row+1)*pixels] {
			x = append(x, float32(ink)/16)
		}
		ten := [classes]float32{}
		ten[names[row]] = 1
		digits, labels = append(digits, ten[:]...), append(labels, int32(names[row]))
	}
	return x, digits, labels
}

func main() {
	ctx := context.Background()
	client := must(kiln.Connect(ctx, ""))
	defer client.Close()
	x, digits, labels := data("../demo/data")
	weights, program := begin(ctx, client), step(ctx, client)
	for epoch := range epochs {
		total := float32(0)
		for at := 0; at+batch <= trained; at += batch {
			pictures := must(kiln.ArrayOf(x[at*pixels:(at+batch)*pixels], batch, pixels))
			names := must(kiln.ArrayOf(digits[at*classes:(at+batch)*classes], batch, classes))
			results := must(program.Run(ctx, append(weights[:4:4], pictures, names)...))
			total += must(kiln.Values[float32](results[0]))[0]
		}
		fmt.Printf("epoch %2d   loss %.4f\n", epoch+1, total/(trained/batch))
	}
	g := kiln.NewGraph()
	guesses, _ := logits(g, images-trained)
	g.Output(guesses.ArgMax(-1))
	unseen := must(kiln.ArrayOf(x[trained*pixels:], images-trained, pixels))
	results := must(must(client.Compile(ctx, g, nil)).Run(ctx, append(weights[:4:4], unseen)...))
	right := 0
	for at, digit := range must(kiln.Values[int32](results[0])) {
		if digit == labels[trained+at] {
			right++
		}
	}
	fmt.Printf("read %d of %d: %.4f\n", right, images-trained, float64(right)/(images-trained))
}
