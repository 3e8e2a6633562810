package kiln

import "testing"

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
