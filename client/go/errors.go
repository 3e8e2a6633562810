package kiln

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	kilnv1 "kiln/v1"
)

// Error is a failure that the server found, or this package. Programs read Code and Status; the text is for people.
type Error struct {
	// Code is the protocol's, and stable: kilnv1.ErrorCode_SHAPE_MISMATCH. 0 where nobody gave one, as when a
	// connection is lost; a number without a name if the server is newer than this package.
	Code kilnv1.ErrorCode
	// Status is gRPC's.
	Status  codes.Code
	Message string

	// Node is the index of the node at fault in the graph as sent, Slot that of an argument; -1 where there is none.
	Node, Slot int
	// Op and Tag are the node's; of a stream's command that failed, Tag is that of the first cause.
	Op, Tag, Pass, Field string
	Handle               uint64
	// Limit is the name of a limit that was met, with its value and how much of it is used.
	Limit      string
	LimitValue uint64
	Used       uint64
	// RetryAfter is how long the server asks to wait before another try; 0 where waiting does not help.
	RetryAfter time.Duration
	// Command is, in a stream, which command went wrong first.
	Command uint64
}

func (e *Error) Error() string {
	var text strings.Builder
	if e.Code != 0 {
		fmt.Fprintf(&text, "%s: ", e.Code)
	} else {
		fmt.Fprintf(&text, "%s: ", e.Status)
	}
	text.WriteString(e.Message)
	if e.Node >= 0 {
		fmt.Fprintf(&text, " (node %d, %s)", e.Node, e.Op)
	}
	if e.Tag != "" {
		fmt.Fprintf(&text, " [%s]", e.Tag)
	}
	return text.String()
}

// GRPCStatus lets google.golang.org/grpc/status read the error.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Status, e.Message) }

// Is makes errors.Is(err, context.DeadlineExceeded) and context.Canceled true of what ended so.
func (e *Error) Is(target error) bool {
	return target == context.DeadlineExceeded && e.Status == codes.DeadlineExceeded ||
		target == context.Canceled && e.Status == codes.Canceled
}

// HasCode says whether err is an *Error with this code.
func HasCode(err error, code kilnv1.ErrorCode) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Code == code
}

// newError is a failure that this package found.
func newError(code kilnv1.ErrorCode, status codes.Code, format string, values ...any) *Error {
	return &Error{Code: code, Status: status, Message: fmt.Sprintf(format, values...), Node: -1, Slot: -1}
}

func badArgument(format string, values ...any) *Error {
	return newError(kilnv1.ErrorCode_BAD_ARGUMENT, codes.InvalidArgument, format, values...)
}

// fromStatus reads a google.rpc.Status as kilnd makes it.
func fromStatus(said *spb.Status) *Error {
	failed := newError(0, codes.Code(said.GetCode()), "%s", said.GetMessage())
	for _, packed := range said.GetDetails() {
		var detail kilnv1.ErrorDetail
		if !strings.HasSuffix(packed.GetTypeUrl(), "/kiln.v1.ErrorDetail") ||
			proto.Unmarshal(packed.GetValue(), &detail) != nil {
			continue
		}
		failed.Code, failed.Op, failed.Tag, failed.Pass = detail.Code, detail.Op, detail.Tag, detail.Pass
		failed.Field, failed.Handle = detail.Field, detail.Handle
		failed.Limit, failed.LimitValue, failed.Used = detail.Limit, detail.LimitValue, detail.Used
		failed.RetryAfter = time.Duration(detail.RetryAfterMs) * time.Millisecond
		if detail.Node != nil {
			failed.Node = int(*detail.Node)
		}
		if detail.Slot != nil {
			failed.Slot = int(*detail.Slot)
		}
		break
	}
	return failed
}

// fromError is the *Error of what a call of gRPC's gave; nil of nil.
func fromError(err error) *Error {
	var failed *Error
	if err == nil || errors.As(err, &failed) {
		return failed
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fromStatus(status.FromContextError(err).Proto())
	}
	said, ok := status.FromError(err)
	if !ok {
		return newError(0, codes.Unknown, "%s", err)
	}
	return fromStatus(said.Proto())
}
