package kiln

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// How long a token's file is believed unchanged.
const believed = time.Second

var scheme = regexp.MustCompile(`^(dns:(///)?|ipv4:|ipv6:|passthrough:///)`)

// staysHere says whether an address is this machine's, as it is written: what a name resolves to is the network's
// business.
func staysHere(target string) bool {
	if strings.HasPrefix(target, "unix:") {
		return true
	}
	host, _, err := net.SplitHostPort(scheme.ReplaceAllString(target, ""))
	ip, noIP := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || noIP == nil && ip.IsLoopback())
}

// plain is what a server may tell to be its own address.
var plain = regexp.MustCompile(`^([A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$`)

// mayFollow says whether a client may go to an address that a server has told it: one of host:port, and none where the
// token would be read on its way. That something else encrypts holds for the way that the user has chosen, and for no
// other.
func (o *options) mayFollow(address string) bool {
	readable := (o.token != "" || o.tokenFile != "") && o.tls == nil && o.authority == ""
	return plain.MatchString(address) && (!readable || staysHere(address))
}

// identity is who a client says it is, and how it knows the server.
type identity struct {
	file string

	mutex  sync.Mutex
	token  string
	looked time.Time
}

// bearer is the token as it is now. A file that is being changed, or is gone for a moment, leaves the one before.
func (i *identity) bearer() string {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.file != "" && time.Since(i.looked) >= believed {
		i.looked = time.Now()
		if data, err := os.ReadFile(i.file); err == nil && len(strings.TrimSpace(string(data))) > 0 {
			i.token = strings.TrimSpace(string(data))
		}
	}
	return i.token
}

// newest is the token that the file has at this moment, for who was refused the one before.
func (i *identity) newest() string {
	i.mutex.Lock()
	i.looked = time.Time{}
	i.mutex.Unlock()
	return i.bearer()
}

// environment puts in what the options leave open: KILN_TOKEN, KILN_TOKEN_FILE, KILN_TLS_CA, KILN_TLS_CERTIFICATE,
// KILN_TLS_KEY.
func (o *options) environment() {
	if o.token == "" && o.tokenFile == "" {
		o.token, o.tokenFile = os.Getenv("KILN_TOKEN"), os.Getenv("KILN_TOKEN_FILE")
	}
	if o.certificate == "" && o.key == "" {
		o.certificate, o.key = os.Getenv("KILN_TLS_CERTIFICATE"), os.Getenv("KILN_TLS_KEY")
	}
	if o.authority == "" {
		o.authority = os.Getenv("KILN_TLS_CA")
	}
}

// identify checks the options that say who is who.
func (o *options) identify(target string) (*identity, credentials.TransportCredentials, error) {
	if (o.certificate == "") != (o.key == "") {
		return nil, nil, badArgument("a client's certificate and its key go together")
	}
	encrypted := o.tls != nil || o.authority != ""
	if o.certificate != "" && !encrypted {
		return nil, nil, badArgument(
			"a certificate is shown on an encrypted connection: give WithTLS or WithAuthority, too",
		)
	}
	if (o.token != "" || o.tokenFile != "") && !encrypted && !o.insecure && !staysHere(target) {
		return nil, nil, badArgument(
			"the token would travel to %s where others can read it: give WithTLS or WithAuthority; or "+
				"WithInsecureToken, where something else encrypts",
			target,
		)
	}
	who := &identity{file: o.tokenFile, token: o.token}
	if o.tokenFile != "" {
		if who.bearer() == "" {
			return nil, nil, badArgument("there is no token in %s", o.tokenFile)
		}
	}
	if !encrypted {
		return who, insecure.NewCredentials(), nil
	}
	config, err := o.config()
	return who, credentials.NewTLS(config), err
}

// handshakes remembers why the last one failed, which gRPC keeps to itself while it tries again; not that a server went
// away meanwhile, which may come back.
type handshakes struct {
	credentials.TransportCredentials
	failed *atomic.Pointer[error]
}

func (h *handshakes) ClientHandshake(
	ctx context.Context,
	authority string,
	conn net.Conn,
) (net.Conn, credentials.AuthInfo, error) {
	safe, info, err := h.TransportCredentials.ClientHandshake(ctx, authority, conn)
	if err != nil && ctx.Err() == nil && !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		h.failed.Store(&err)
	}
	return safe, info, err
}

func (h *handshakes) Clone() credentials.TransportCredentials {
	return &handshakes{h.TransportCredentials.Clone(), h.failed}
}

func (h *handshakes) why() error {
	if failed := h.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// config reads the client's certificate anew for each connection, so that it may be replaced.
func (o *options) config() (*tls.Config, error) {
	config := &tls.Config{}
	if o.tls != nil {
		config = o.tls.Clone()
	}
	if o.authority != "" && o.authority != "system" {
		pem, err := os.ReadFile(o.authority)
		if err != nil {
			return nil, badArgument("cannot read who signs the server's certificate: %s", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, badArgument("%s has no certificate in PEM", o.authority)
		}
	}
	if o.certificate != "" {
		if _, err := tls.LoadX509KeyPair(o.certificate, o.key); err != nil {
			return nil, badArgument("cannot read the client's certificate: %s", err)
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(o.certificate, o.key)
			return &pair, err
		}
	}
	return config, nil
}
