package kiln

import (
	"cmp"
	"context"
	"crypto/tls"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	kilnv1 "kiln/v1"
	"kiln/v1/inference"
)

// The version of the protocol that this package speaks.
const protocol = 1

const (
	defaultAddress = "localhost:7437"
	defaultLease   = 30 * time.Second
	connectTimeout = 10 * time.Second
	directTimeout  = 2 * time.Second // for the server behind a balancer, which is near it
)

// Client is a connection to one kilnd, made by Connect.
type Client struct {
	conn     *grpc.ClientConn
	target   string
	device   string
	who      *identity
	retries  retries
	session  *session
	features map[string]bool
	devices  []string
	version  string

	kernels     kilnv1.KernelServiceClient
	buffers     kilnv1.BufferServiceClient
	collectives kilnv1.CollectiveServiceClient
	sessions    kilnv1.SessionServiceClient
	machines    kilnv1.DeviceServiceClient
	models      inference.GRPCInferenceServiceClient

	mutex  sync.Mutex
	stream *Stream
	closed bool
}

type options struct {
	token, tokenFile            string
	authority, certificate, key string
	tls                         *tls.Config
	insecure                    bool
	device                      string
	lease                       time.Duration
	dial                        []grpc.DialOption
}

// Option is one of Connect's.
type Option func(*options)

// WithToken says who asks, by a secret that is sent with every call.
func WithToken(token string) Option { return func(o *options) { o.token = token } }

// WithTokenFile names a file that has the token, and is read again when it changes.
func WithTokenFile(path string) Option { return func(o *options) { o.tokenFile = path } }

// WithTLS encrypts; &tls.Config{} trusts whom the system trusts.
func WithTLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// WithAuthority encrypts, and trusts who signs with a certificate of this file of PEM ("system": whom the system
// trusts).
func WithAuthority(path string) Option { return func(o *options) { o.authority = path } }

// WithCertificate shows the server a certificate of the client's: files of PEM, read again for each connection.
func WithCertificate(certificate, key string) Option {
	return func(o *options) { o.certificate, o.key = certificate, key }
}

// WithInsecureToken lets a token travel to another machine without encryption, where something else encrypts.
func WithInsecureToken() Option { return func(o *options) { o.insecure = true } }

// WithDevice says where graphs are compiled and buffers are; else on the server's first device.
func WithDevice(name string) Option { return func(o *options) { o.device = name } }

// WithLease says how long the server keeps what this client has made when it hears nothing more of it; 30 s otherwise.
// With 0 what it makes belongs to nobody, and stays until it is freed.
func WithLease(lease time.Duration) Option { return func(o *options) { o.lease = lease } }

// WithDialOptions gives gRPC further options, such as a stats handler of OpenTelemetry's.
func WithDialOptions(further ...grpc.DialOption) Option {
	return func(o *options) { o.dial = append(o.dial, further...) }
}

// Connect connects to the kilnd at an address: "host:port", or "unix:PATH"; "": where KILN_ADDR says, or on this
// machine. Credentials that are not given are those of the environment. Without a deadline of its own it waits 10 s.
func Connect(ctx context.Context, address string, with ...Option) (*Client, error) {
	o := options{lease: defaultLease}
	for _, option := range with {
		option(&o)
	}
	o.environment()
	if address == "" {
		address = cmp.Or(os.Getenv("KILN_ADDR"), defaultAddress)
	}
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, connectTimeout)
		defer cancel()
	}
	return connect(ctx, address, o, "")
}

// connect connects to the server at an address or, if that is a balancer's, to the one behind it; or, if one is named,
// to that one alone.
func connect(ctx context.Context, address string, o options, named string) (*Client, error) {
	who, transport, err := o.identify(address)
	if err != nil {
		return nil, err
	}
	c := &Client{target: address, device: o.device, who: who, retries: retries{budget: mostBudget}}
	c.session = &session{client: c, wanted: o.lease}
	shaken := &handshakes{TransportCredentials: transport, failed: &atomic.Pointer[error]{}}
	c.conn, err = grpc.NewClient(address, append(c.dialOptions(shaken), o.dial...)...)
	if err != nil {
		return nil, badArgument("%s is no address: %s", address, err)
	}
	c.kernels, c.buffers = kilnv1.NewKernelServiceClient(c.conn), kilnv1.NewBufferServiceClient(c.conn)
	c.collectives, c.sessions = kilnv1.NewCollectiveServiceClient(c.conn), kilnv1.NewSessionServiceClient(c.conn)
	c.machines, c.models = kilnv1.NewDeviceServiceClient(c.conn), inference.NewGRPCInferenceServiceClient(c.conn)
	itself, err := c.meet(ctx, shaken)
	if err == nil && named != "" && itself != named {
		err = newError(0, codes.Unavailable, "another server is at %s, which calls itself %q", address, itself)
	}
	if err == nil && itself != "" && itself != address && o.mayFollow(itself) {
		if direct := directly(ctx, itself, o); direct != nil {
			c.conn.Close()
			return direct, nil
		}
	}
	if err == nil && o.lease > 0 && c.features["sessions"] {
		err = c.session.open(ctx, o.lease)
	}
	if err != nil {
		c.conn.Close()
		return nil, err
	}
	return c, nil
}

// directly connects to the server behind a balancer, for what is made is in that server's memory. Nil if it cannot be
// reached so: then the balancer must keep us there.
func directly(ctx context.Context, address string, o options) *Client {
	patience := directTimeout
	if end, has := ctx.Deadline(); has {
		patience = min(patience, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	direct, err := connect(ctx, address, o, address)
	if err != nil {
		return nil
	}
	return direct
}

// meet waits for the server, hears what it is, and at which address it is itself, if it says.
func (c *Client) meet(ctx context.Context, shaken *handshakes) (string, error) {
	c.conn.Connect()
	for state := c.conn.GetState(); state != connectivity.Ready; state = c.conn.GetState() {
		if state == connectivity.Idle {
			c.conn.Connect() // it was lost at once
		}
		if err := shaken.why(); err != nil {
			return "", newError(0, codes.Unavailable, "no safe connection to %s: %s", c.target, err)
		}
		if !c.conn.WaitForStateChange(ctx, state) {
			if ctx.Err() == context.Canceled {
				return "", fromError(ctx.Err())
			}
			return "", newError(0, codes.Unavailable, "no server answers at %s: is kilnd running there?", c.target)
		}
	}
	said, err := c.machines.List(ctx, &kilnv1.ListDevicesRequest{})
	if err != nil {
		return "", err
	}
	if said.ProtocolMin > protocol || said.ProtocolMax < protocol {
		return "", newError(
			0,
			codes.FailedPrecondition,
			"the server at %s speaks protocol %d to %d, this package %d: take the package "+
				"of the server's release",
			c.target,
			said.ProtocolMin,
			said.ProtocolMax,
			protocol,
		)
	}
	c.version, c.features = said.ServerVersion, map[string]bool{}
	for _, name := range said.Features {
		c.features[name] = true
	}
	for _, row := range said.Devices {
		c.devices = append(c.devices, row.Name)
	}
	if c.device != "" && !slices.Contains(c.devices, c.device) {
		return "", newError(
			kilnv1.ErrorCode_UNKNOWN_DEVICE,
			codes.NotFound,
			"the server at %s has no device %s; it has %v",
			c.target,
			c.device,
			c.devices,
		)
	}
	return said.Address, nil
}

// Address is the server's: the one that was given, or the server's own behind a balancer.
func (c *Client) Address() string { return c.target }

// Conn is the connection, for stubs of packages kiln/v1 and kiln/v1/inference.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Features are what the server can do, by the names of docs/protocol.md.
func (c *Client) Features() []string { return slices.Sorted(maps.Keys(c.features)) }

// Devices are the names of the server's devices.
func (c *Client) Devices() []string { return slices.Clone(c.devices) }

// ServerVersion is for people: what a server can do, Features says.
func (c *Client) ServerVersion() string { return c.version }

// Close ends the session, with all that was made under it, and the connection. Twice is once.
func (c *Client) Close() error {
	c.mutex.Lock()
	stream := c.stream
	c.stream, c.closed = nil, true
	c.mutex.Unlock()
	if stream != nil {
		stream.link.close()
	}
	c.session.close()
	if err := c.conn.Close(); status.Code(err) != codes.Canceled { // which it is the second time
		return err
	}
	return nil
}
