package migrate

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"holdfast/transport/secure"
)

// TLS are the files for TLS to the source.
type TLS struct {
	// CACert is the file of the CAs that sign the certificates of the servers; empty means the system's CAs.
	CACert string
	// Cert and Key are the files of the client's own certificate and its key; empty for none.
	Cert, Key string
	// ServerName is the name that the servers' certificates must have; empty is the host of each address.
	ServerName string
}

// config reads the files. Nil is no TLS.
func (t *TLS) config() (*tls.Config, error) {
	if t == nil || *t == (TLS{}) {
		return nil, nil //nolint:nilnil // no TLS is no error
	}
	if (t.Cert == "") != (t.Key == "") {
		return nil, errors.New("a certificate for the source and its key: give both, or neither")
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CACert != "" {
		text, err := os.ReadFile(t.CACert)
		if err != nil {
			return nil, err
		}
		all, err := secure.Certificates(text)
		if err != nil || len(all) == 0 {
			return nil, errors.Join(fmt.Errorf("%s holds no certificate of a CA", t.CACert), err)
		}
		c.RootCAs = x509.NewCertPool()
		for _, one := range all {
			c.RootCAs.AddCert(one)
		}
	}
	if t.Cert != "" {
		pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s are no pair of certificate and key: %w", t.Cert, t.Key, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// link makes the connections to the source. It records why the newest connection failed, because the library only
// reports that there is none. Safe for concurrent use.
type link struct {
	tls *tls.Config // nil for none

	mu sync.Mutex
	// why is why the newest connection failed, nil after an answer; guarded by mu.
	why error
}

// dial connects, and speaks TLS if configured.
func (l *link) dial(network, address string, within time.Duration) (conn net.Conn, err error) {
	dialer := &net.Dialer{Timeout: within}
	if l.tls == nil {
		conn, err = dialer.Dial(network, address)
	} else {
		conn, err = tls.DialWithDialer(dialer, network, address, l.tls)
	}
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the server ended the TLS handshake, as a server without TLS does: %w", err)
	}
	if err != nil {
		l.note(fmt.Errorf("%s: %w", address, err))
		return nil, err
	}
	return &recordingConn{Conn: conn, link: l, address: address}, nil
}

func (l *link) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = err
}

// failure returns why there is no connection; nil if that is not known.
func (l *link) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// lasts reports whether the connection fails for a permanent reason: one side rejects the other's certificate, or does
// not use TLS.
func (l *link) lasts() bool {
	err := l.failure()
	if _, is := errors.AsType[*tls.CertificateVerificationError](err); is {
		return true
	}
	if _, is := errors.AsType[tls.RecordHeaderError](err); is {
		return true
	}
	op, is := errors.AsType[*net.OpError](err)
	return is && op.Op == "remote error" // package tls marks an alert of the other side like this
}

// recordingConn is a connection that reports its outcome to its link. A server that wants a certificate says so only
// after the handshake.
type recordingConn struct {
	net.Conn
	link    *link
	address string
}

func (c *recordingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch op, is := errors.AsType[*net.OpError](err); {
	case err == nil:
		c.link.note(nil)
	case is && op.Op == "remote error":
		c.link.note(fmt.Errorf("%s: %w", c.address, err))
	}
	return n, err
}

// names returns the servers by their names, in turn, starting at a random server. The library's own provider returns
// addresses, which are not in certificates.
type names struct {
	mu      sync.Mutex
	servers []string
	// at is the next server, tried counts servers since the last connection; guarded by mu.
	at, tried int
}

// Init implements the library's HostProvider.
func (n *names) Init(servers []string) error {
	n.servers, n.at = servers, rand.IntN(len(servers))
	return nil
}

// Len returns the number of servers.
func (n *names) Len() int { return len(n.servers) }

// Next returns the next server, and whether all have been tried.
func (n *names) Next() (server string, retryStart bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	server = n.servers[n.at%len(n.servers)]
	n.at++
	n.tried++
	return server, n.tried > len(n.servers)
}

// Connected records that the newest server serves.
func (n *names) Connected() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.tried = 0
}
