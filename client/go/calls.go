package kiln

import (
	"context"
	"io"
	"math"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	kilnv1 "kiln/v1"
)

// What all calls have in common is done on the connection itself, so that calls by the stubs of kiln/v1 have it, too:
// who asks, under which session, what is tried again, and errors.

const (
	sessionHeader = "kiln-session-bin"
	// What a server may say at once. Arrays of more come in chunks; the rest is for graphs.
	mostMessage = 256 << 20
	// A connection on which calls wait, and nothing comes for so long, is asked whether it is alive.
	leastSilence = 20 * time.Second
	mostSilence  = 310 * time.Second // gRPC servers take pings amiss that come oftener than each 5 minutes for nothing
	pong         = 10 * time.Second
)

type traceKey struct{}

// tokenKey is for a stream, which stays with the session that it began under.
type tokenKey struct{}

// WithTraceparent puts calls made with the context into a trace: traceparent is as the W3C has it ("00-…-…-01").
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

func (c *Client) dialOptions(transport credentials.TransportCredentials) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		// A proxy for web pages is no way to a compute server.
		grpc.WithNoProxy(),
		// Nor is a name's text record a way to say how it is called.
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostMessage), grpc.MaxCallSendMsgSize(math.MaxInt32)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: c.silence(), Timeout: pong}),
		// Room for a few chunks on the way.
		grpc.WithInitialWindowSize(8 << 20),
		grpc.WithInitialConnWindowSize(16 << 20),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay:  50 * time.Millisecond,
				Multiplier: 1.6,
				Jitter:     0.2,
				MaxDelay:   time.Second,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithUnaryInterceptor(c.unary),
		grpc.WithStreamInterceptor(c.streaming),
	}
}

// silence is longer than a session is silent, whose renewals are answered: a connection in order is asked nothing.
func (c *Client) silence() time.Duration {
	if c.session.wanted == 0 {
		return mostSilence
	}
	return min(max(leastSilence, c.session.wanted/2), mostSilence)
}

// outgoing is the context with what a call of this method carries besides its message.
func (c *Client) outgoing(ctx context.Context, method string) context.Context {
	if token := c.who.bearer(); token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	token, is := ctx.Value(tokenKey{}).([]byte)
	if !is {
		token = c.session.token()
	}
	if token != nil && !strings.HasPrefix(method, "/kiln.v1.SessionService/") {
		ctx = metadata.AppendToOutgoingContext(ctx, sessionHeader, string(token))
	}
	if trace, is := ctx.Value(traceKey{}).(string); is {
		ctx = metadata.AppendToOutgoingContext(ctx, "traceparent", trace)
	}
	return ctx
}

func (c *Client) unary(
	ctx context.Context,
	method string,
	request, answer any,
	conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker,
	with ...grpc.CallOption,
) error {
	c.retries.earn()
	deadline, _ := ctx.Deadline()
	for attempt := 1; ; attempt++ {
		err := invoke(c.outgoing(ctx, method), method, request, answer, conn, with...)
		if err == nil {
			return nil
		}
		failed := c.heed(fromError(err))
		if ofSequence(request) {
			return failed
		}
		pause, again := c.retries.wait(method, failed, attempt, deadline)
		if !again || !sleep(ctx, pause) {
			return failed
		}
	}
}

// heed lets the session know if it is gone.
func (c *Client) heed(failed *Error) *Error {
	if failed.Field == sessionHeader && failed.Status == codes.NotFound ||
		failed.Code == kilnv1.ErrorCode_SESSION_EXPIRED {
		c.session.hasten()
	}
	return failed
}

// sleep says whether the time is over, and not the context.
func sleep(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (c *Client) streaming(
	ctx context.Context,
	description *grpc.StreamDesc,
	conn *grpc.ClientConn,
	method string,
	begin grpc.Streamer,
	with ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := begin(c.outgoing(ctx, method), description, conn, method, with...)
	if err != nil {
		return nil, c.heed(fromError(err))
	}
	return &failing{stream, c}, nil
}

// failing is a stream whose errors are *Error; io.EOF stays as it is.
type failing struct {
	grpc.ClientStream
	client *Client
}

func (f *failing) RecvMsg(message any) error {
	err := f.ClientStream.RecvMsg(message)
	if err == nil || isEnd(err) {
		return err
	}
	return f.client.heed(fromError(err))
}

func isEnd(err error) bool { return err == io.EOF }
