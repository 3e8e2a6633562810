package kiln

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	kilnv1 "kiln/v1"
)

func TestATokenDoesNotTravelInTheOpen(t *testing.T) {
	for target, here := range map[string]bool{
		"localhost:1": true, "127.0.0.1:1": true, "127.1.2.3:1": true, "[::1]:1": true, "unix:/run/kiln": true,
		"dns:///localhost:1": true, "passthrough:///127.0.0.1:1": true, "ipv6:[::1]:1": true,
		"127.evil.example:1": false, "localhost.example:1": false, "10.0.0.1:1": false, "dns:///host:1": false,
		"[::2]:1": false, "127.0.0.1.evil:1": false,
	} {
		o := options{token: "secret"}
		if _, _, err := o.identify(target); (err == nil) != here {
			t.Errorf("%s: %v", target, err)
		}
	}
}

func TestWhatConnectingHears(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Connect(ctx, "127.0.0.1:1"); !errors.Is(err, context.Canceled) {
		t.Error("given up:", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = Connect(ctx, listener.Addr().String(), WithTLS(&tls.Config{}))
	if err == nil || !strings.Contains(err.Error(), "handshake") || ctx.Err() != nil {
		t.Error("a server that does not encrypt:", err)
	}
}

func TestWhichCallsAreMadeAgain(t *testing.T) {
	const execute, compile = kilnv1.KernelService_Execute_FullMethodName, kilnv1.KernelService_Compile_FullMethodName
	const full, lost, stopping = codes.ResourceExhausted, codes.Unavailable, kilnv1.ErrorCode_SHUTTING_DOWN
	const absent = kilnv1.ErrorCode_PARTICIPANT_MISSING
	busy := &Error{Status: full, RetryAfter: 10 * time.Millisecond}
	for name, row := range map[string]struct {
		method string
		failed *Error
		again  bool
	}{
		"busy":                 {execute, busy, true},
		"full":                 {execute, &Error{Status: full}, false},
		"busy for long":        {execute, &Error{Status: full, RetryAfter: time.Minute}, false},
		"stopping":             {execute, &Error{Status: lost, Code: stopping}, true},
		"lost, and looked":     {compile, &Error{Status: lost}, true},
		"lost, and wrote":      {execute, &Error{Status: lost}, false},
		"a participant":        {compile, &Error{Status: lost, Code: absent}, false},
		"a fault of the graph": {compile, &Error{Status: codes.InvalidArgument}, false},
	} {
		r := retries{budget: mostBudget}
		if pause, again := r.wait(
			row.method,
			row.failed,
			1,
			time.Time{},
		); again != row.again || pause < 0 ||
			pause > mostWait*3/2 {
			t.Errorf("%s: %v, %v", name, pause, again)
		}
	}
	r := retries{budget: mostBudget}
	if _, again := r.wait("", busy, attempts, time.Time{}); again {
		t.Error("a fourth attempt")
	}
	if _, again := r.wait("", busy, 1, time.Now().Add(time.Millisecond)); again {
		t.Error("behind its deadline")
	}
	made := 0
	for range 100 {
		if _, again := r.wait("", busy, 1, time.Time{}); again {
			made++
		}
	}
	if made != mostBudget {
		t.Errorf("%d tries of a budget of %v", made, mostBudget)
	}
}

func TestErrorsReadWell(t *testing.T) {
	failed := &Error{
		Code:    kilnv1.ErrorCode_DTYPE_MISMATCH,
		Message: "int32 and float32",
		Node:    2,
		Op:      "SUB",
		Tag:     "mine",
	}
	if text := failed.Error(); text != "DTYPE_MISMATCH: int32 and float32 (node 2, SUB) [mine]" {
		t.Error(text)
	}
}

func TestTokensStayOnThisMachineWithoutEncryption(t *testing.T) {
	for address, stays := range map[string]bool{
		"localhost:1": true, "127.0.0.1:1": true, "[::1]:1": true, "unix:/run/kiln": true,
		"localhost.example:1": false, "192.0.2.1:1": false, "kiln.example:1": false} {
		_, _, err := (&options{token: "secret"}).identify(address)
		if (err == nil) != stays {
			t.Errorf("%s: %v", address, err)
		}
	}
	alone, plain := options{certificate: "a"}, options{certificate: "a", key: "b"}
	for _, o := range []options{alone, plain, {tokenFile: "/none"}, {authority: "/none"}} {
		if _, _, err := o.identify("localhost:1"); !isBad(err) {
			t.Errorf("%v: %v", o, err)
		}
	}
}

func TestAClientDoesNotGoWhereverAServerSays(t *testing.T) {
	anyone := &options{}
	// That something else encrypts holds for where the user has sent the token.
	readable := &options{token: "secret", insecure: true}
	encrypted := &options{token: "secret", authority: "system"}
	for _, address := range []string{"gpu1.example:7437", "10.0.0.1:1", "[fe80::1]:1"} {
		if !anyone.mayFollow(address) || !encrypted.mayFollow(address) || readable.mayFollow(address) {
			t.Errorf("%s: %t %t %t", address, anyone.mayFollow(address), encrypted.mayFollow(address),
				readable.mayFollow(address))
		}
	}
	if !readable.mayFollow("127.0.0.1:7437") {
		t.Error("what stays on this machine is not followed")
	}
	for _, address := range []string{"", "host", ":1", "host:", "unix:/tmp/x", "xds:host:1", "dns:///host:1", "a..b:1",
		"a b:1", "ipv4:127.0.0.1:1,10.0.0.1:1", "127.0.0.1:1,10.0.0.1:1"} {
		if anyone.mayFollow(address) {
			t.Errorf("%q is followed", address)
		}
	}
}
