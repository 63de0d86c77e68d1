package secure

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"holdfast/session"
)

// Dialer makes connections. Its fields must not change once it is used. Safe for concurrent use.
type Dialer struct {
	// Store has the certificates and CAs; nil with the mode Off.
	Store *Store
	Mode  Mode
	// Dial makes the underlying connection; nil is TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// ServerName is the name that the other side's certificate must have; empty is the host of the address. It is not
	// used with Names.
	ServerName string
	// Names checks the name in the verified certificate of the node at an address; with nil the certificate must have
	// the ServerName.
	Names func(address string, c *x509.Certificate) error
	// Protocols are the protocols of the connection, for ALPN.
	Protocols []string
	// MinVersion is the lowest version of TLS; 0 is 1.3.
	MinVersion uint16
	// Ours describes this side's setting in errors, such as "node_tls is require here"; Theirs is the name of the other
	// side's setting, such as "node_tls".
	Ours, Theirs string
	// Fresh checks before each handshake whether the files of Store have changed: for processes that do not run the
	// Store.
	Fresh bool
}

// DialContext connects to address. If the sides do not agree on TLS, the error is a [session.TLSError]; the error of
// the first Read may be one too, because with TLS 1.3 a refused certificate is reported only then.
func (d *Dialer) DialContext(ctx context.Context, address string) (net.Conn, error) {
	if !d.Mode.Secure() {
		return d.plain(ctx, address)
	}
	conn, err := d.secured(ctx, address)
	if e, ok := errors.AsType[*session.TLSError](err); ok && e.Plain && d.Mode == Prefer {
		return d.plain(ctx, address)
	}
	return conn, err
}

func (d *Dialer) raw(ctx context.Context, address string) (net.Conn, error) {
	if d.Dial != nil {
		return d.Dial(ctx, address)
	}
	var tcp net.Dialer
	return tcp.DialContext(ctx, "tcp", address)
}

// plain connects without TLS.
func (d *Dialer) plain(ctx context.Context, address string) (net.Conn, error) {
	raw, err := d.raw(ctx, address)
	if err != nil {
		return nil, err
	}
	c := &Conn{lower: &lower{Conn: raw}, done: make(chan struct{})}
	c.upper = c.lower
	c.first = func(b []byte, _ error) error {
		// Other servers than ours answer with a TLS alert.
		if !bytes.HasPrefix(b, []byte(tlsRequired)) && !bytes.HasPrefix(b, []byte{0x15, 3}) {
			return nil
		}
		return &session.TLSError{
			With: address, Fault: "it requires TLS, and this side speaks without TLS",
			Advice: fmt.Sprintf("%s is %s there; %s", d.Theirs, Require, d.Ours),
		}
	}
	close(c.done)
	return c, nil
}

// secured connects with TLS.
func (d *Dialer) secured(ctx context.Context, address string) (net.Conn, error) {
	if d.Fresh {
		d.Store.Refresh()
	}
	raw, err := d.raw(ctx, address)
	if err != nil {
		return nil, err
	}
	c := &Conn{lower: &lower{Conn: raw}, store: d.Store, done: make(chan struct{})}
	c.shake = func(ctx context.Context, c *Conn) error { return d.shake(ctx, c, address) }
	if err = c.HandshakeContext(ctx); err != nil {
		_ = c.Close() // the handshake's error says more
		return nil, err
	}
	return c, nil
}

func (d *Dialer) shake(ctx context.Context, c *Conn, address string) error {
	m := d.Store.Current()
	var chain []*x509.Certificate
	config := d.config(m, address)
	verify := func(m *Material, now time.Time) error { return d.verify(m, now, address, chain) }
	config.VerifyConnection = func(state tls.ConnectionState) error {
		chain = state.PeerCertificates
		return verify(m, d.Store.cfg.Clock())
	}
	t := tls.Client(c.lower, config)
	if err := t.HandshakeContext(ctx); err != nil {
		return d.explain(address, err)
	}
	c.verify = verify
	c.first = func(_ []byte, err error) error {
		if _, remote := alertOf(err); remote {
			return d.explain(address, err)
		}
		return nil
	}
	return c.secured(t, m)
}

func (d *Dialer) config(m *Material, address string) *tls.Config {
	name := d.ServerName
	if name == "" {
		name, _, _ = net.SplitHostPort(address) // an address without a port cannot be dialled
	}
	config := &tls.Config{
		ServerName: name,
		RootCAs:    m.Roots,
		MinVersion: max(d.MinVersion, tls.VersionTLS12),
		NextProtos: d.Protocols,
		Time:       d.Store.cfg.Clock,
		// VerifyConnection verifies the chain where a certificate names a node instead of a host.
		InsecureSkipVerify: d.Names != nil,
	}
	if d.MinVersion == 0 {
		config.MinVersion = tls.VersionTLS13
	}
	if m.Pair != nil {
		// Certificates would not be sent to a server whose CAs did not sign them, and the server would report only a
		// missing certificate.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.Pair, nil }
	}
	return config
}

// verify returns an error unless one of m's CAs signed the other side's certificate, and the certificate names the node
// at address.
func (d *Dialer) verify(m *Material, now time.Time, address string, chain []*x509.Certificate) error {
	if err := verify(chain, m.Roots, x509.ExtKeyUsageServerAuth, now); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	if d.Names == nil {
		return nil
	}
	return d.Names(address, chain[0])
}

func (d *Dialer) explain(address string, err error) error {
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok && plain.Conn != nil {
		return &session.TLSError{
			With: address, Plain: true, Fault: "it speaks without TLS",
			Advice: fmt.Sprintf("%s is %s there; %s", d.Theirs, Off, d.Ours),
		}
	}
	if !ofTLS(err) {
		return err
	}
	e := &session.TLSError{With: address, Fault: "handshake failed", Err: err}
	if code, remote := alertOf(err); remote {
		e.Fault, e.Err, e.Advice = "it refuses this side", errors.New(alertText(code)), alertAdvice(code)
	} else if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		e.Fault, e.Err = "its certificate is not accepted", unverified.Err
		if _, name := errors.AsType[x509.HostnameError](err); name {
			e.Advice = "dial a name that the certificate has, or say which name it has (--server-name)"
		} else {
			e.Advice = "it is of " + owner(unverified.UnverifiedCertificates[0])
		}
	}
	return e
}
