package secure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// ServerConfig configures a [Server].
type ServerConfig struct {
	// Store has the certificates. It may be nil with the mode Off.
	Store *Store
	Mode  Mode
	// Setting is the name of the setting of Mode, and Port the name of the port, for people.
	Setting, Port string
	// Auth says whether callers need certificates.
	Auth Auth
	// Nodes says that the CAs of nodes sign the certificates of callers, not the CAs of clients.
	Nodes bool
	// Names refuses a verified certificate by its name; nil accepts every name.
	Names func(c *x509.Certificate) error
	// Protocols are the protocols of the port, for ALPN.
	Protocols []string
	// MinVersion is the lowest version of TLS; 0 is 1.3.
	MinVersion uint16
	// Mute leaves the answer to callers without TLS to the port, which knows their protocol.
	Mute   bool
	Logger hclog.Logger
}

// Server is one port's side of TLS. Safe for concurrent use.
type Server struct {
	cfg     ServerConfig
	refused atomic.Uint64
	log     seldom
}

// refusalLogInterval keeps callers that retry all the time from filling the log.
const refusalLogInterval = 10 * time.Second

// seldom calls a function at most once in an interval. Safe for concurrent use. The SDK links this package, and must
// not link another rate limiter.
type seldom struct {
	every time.Duration
	mu    sync.Mutex
	done  time.Time // guarded by mu
}

// do calls f unless it has called a function within the last interval.
func (s *seldom) do(f func()) {
	now := time.Now()
	s.mu.Lock()
	due := s.done.IsZero() || now.Sub(s.done) >= s.every
	if due {
		s.done = now
	}
	s.mu.Unlock()
	if due {
		f()
	}
}

// NewServer returns the TLS side of a port. It starts no goroutine.
func NewServer(cfg ServerConfig) *Server {
	if cfg.MinVersion == 0 {
		cfg.MinVersion = tls.VersionTLS13
	}
	if cfg.Logger == nil {
		cfg.Logger = hclog.NewNullLogger()
	}
	return &Server{cfg: cfg, log: seldom{every: refusalLogInterval}}
}

// Refused returns the number of callers that were refused in the handshake.
func (s *Server) Refused() uint64 { return s.refused.Load() }

// Listener returns a listener whose connections are a [Conn] each. Accept does not wait for handshakes.
func (s *Server) Listener(l net.Listener) net.Listener { return &listener{l, s} }

type listener struct {
	net.Listener
	server *Server
}

// Accept returns the next connection, before its handshake.
func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s := l.server
	return &Conn{lower: &lower{Conn: raw}, shake: s.shake, store: s.cfg.Store, done: make(chan struct{})}, nil
}

// recordHandshake is the first byte of a connection with TLS.
const recordHandshake = 0x16

// tlsRequired begins the answer to a caller without TLS. Dialers of this package recognize it.
const tlsRequired = "HTTP/1.1 400 TLS required"

// answer returns an HTTP answer.
func answer(line, text string) string {
	return line + "\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" + text + "\n"
}

// shake is the handshake of an accepted connection.
func (s *Server) shake(ctx context.Context, c *Conn) error {
	err := s.greet(ctx, c)
	if err == nil {
		return nil
	}
	if !errors.Is(err, session.ErrTLS) {
		s.cfg.Logger.Debug("connection closed before its handshake", "remote", c.RemoteAddr().String(), "error", err)
		return err
	}
	s.refused.Add(1)
	s.log.do(func() { s.cfg.Logger.Warn("connection refused", "port", s.cfg.Port, "error", err) })
	return err
}

func (s *Server) greet(ctx context.Context, c *Conn) error {
	defer context.AfterFunc(ctx, func() { _ = c.Conn.Close() })()
	first, err := c.peek()
	if err != nil {
		return err
	}
	with, speaksTLS := c.RemoteAddr().String(), first[0] == recordHandshake
	switch {
	case speaksTLS && s.cfg.Mode.Secure():
		return s.secure(ctx, c)
	case speaksTLS:
		s.respond(c, answer("HTTP/1.1 400 TLS not spoken", fmt.Sprintf("This port speaks without TLS (%s: off).",
			s.cfg.Setting)))
		return &session.TLSError{
			With: with, Fault: "it speaks TLS, and this port does not",
			Advice: fmt.Sprintf("%s is %s here: set it to prefer or require, or have the caller speak without TLS",
				s.cfg.Setting, Off),
		}
	case s.cfg.Mode == Require:
		if !s.cfg.Mute {
			s.respond(c, answer(tlsRequired, fmt.Sprintf("This port takes TLS only (%s: require).", s.cfg.Setting)))
		}
		return &session.TLSError{
			With: with, Plain: true, Fault: "it speaks without TLS, and this port requires TLS",
			Advice: fmt.Sprintf("%s is %s here: give the caller certificates, or set prefer here for the time of a change",
				s.cfg.Setting, Require),
		}
	}
	c.upper = c.lower
	return nil
}

// respond answers a refused caller.
func (s *Server) respond(c *Conn, text string) {
	if c.Conn.SetWriteDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	if _, err := io.WriteString(c.Conn, text); err == nil {
		c.linger()
	}
}

// secure is the handshake with TLS. Each handshake uses the newest material.
func (s *Server) secure(ctx context.Context, c *Conn) error {
	m := s.cfg.Store.Current()
	var chain []*x509.Certificate
	t := tls.Server(c.lower, s.config(m, func(state tls.ConnectionState) error {
		chain = state.PeerCertificates
		return s.named(chain)
	}))
	if err := t.HandshakeContext(ctx); err != nil {
		if ctx.Err() == nil {
			c.linger()
		}
		return s.explain(c.RemoteAddr().String(), err)
	}
	c.verify = func(m *Material, now time.Time) error {
		if err := verify(chain, s.roots(m), x509.ExtKeyUsageClientAuth, now); err != nil {
			return err
		}
		return s.named(chain)
	}
	return c.secured(t, m)
}

func (s *Server) roots(m *Material) *x509.CertPool {
	if s.cfg.Nodes {
		return m.Roots
	}
	return m.ClientRoots
}

// config is made for each handshake. There are no session tickets: a resumed session could rest on a verification by a
// CA that is gone.
func (s *Server) config(m *Material, check func(tls.ConnectionState) error) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{*m.Pair},
		ClientAuth: map[Auth]tls.ClientAuthType{
			AuthNone: tls.NoClientCert, AuthOptional: tls.VerifyClientCertIfGiven, AuthRequire: tls.RequireAndVerifyClientCert,
		}[s.cfg.Auth],
		ClientCAs:              s.roots(m),
		VerifyConnection:       check,
		MinVersion:             s.cfg.MinVersion,
		NextProtos:             s.cfg.Protocols,
		SessionTicketsDisabled: true,
		Time:                   s.cfg.Store.cfg.Clock,
	}
}

// named refuses a caller by the name in its certificate.
func (s *Server) named(chain []*x509.Certificate) error {
	if len(chain) == 0 || s.cfg.Names == nil {
		return nil
	}
	return s.cfg.Names(chain[0])
}

func (s *Server) explain(with string, err error) error {
	if !ofTLS(err) {
		return err
	}
	e := &session.TLSError{With: with, Fault: "handshake refused", Err: err}
	if code, remote := alertOf(err); remote {
		e.Fault, e.Err = "it does not accept this node's certificate", errors.New(alertText(code))
		e.Advice = "compare its CA with the one that signed tls_cert here"
	} else if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		e.Fault = "its certificate is not accepted: it is of " + owner(unverified.UnverifiedCertificates[0])
		e.Err = unverified.Err
	}
	return e
}
