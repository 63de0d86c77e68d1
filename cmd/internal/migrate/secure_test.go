package migrate_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/internal/migrate"
	"holdfast/test/certs"
	"holdfast/transport/secure"
)

// listens accepts connections and gives each to serve, until the test ends.
func listens(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// secured serves TLS, and asks for certificates if there are CAs of clients. It reads all bytes and answers nothing.
func secured(t *testing.T, server secure.Files, clients *certs.CA) (address string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(server.Cert, server.Key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(clients.PEM())
	}
	return listens(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, tls.Server(conn, config)) })
}

// TestTLSFailures: what no waiting mends ends the import at once, and says why.
func TestTLSFailures(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	server, me, stranger := ca.Node("zoo", 1), ca.Client("zoo", "me"), other.Client("zoo", "me")
	asking, open := secured(t, server, ca), secured(t, server, nil)
	for _, one := range []struct {
		what, address string
		tls           migrate.TLS
		says          string
	}{
		{"another CA", open, migrate.TLS{CACert: other.File}, "failed to verify certificate"},
		{"another name", open, migrate.TLS{CACert: ca.File, ServerName: "elsewhere"}, "not elsewhere"},
		{"no certificate", asking, migrate.TLS{CACert: ca.File}, "remote error: tls: certificate required"},
		{
			"a stranger's certificate", asking,
			migrate.TLS{CACert: ca.File, Cert: stranger.Cert, Key: stranger.Key},
			"remote error: tls:",
		},
		{
			"bytes that are no TLS", listens(t, func(c net.Conn) { _, _ = c.Write(make([]byte, 64)) }),
			migrate.TLS{CACert: ca.File, Cert: me.Cert, Key: me.Key},
			"does not look like a TLS handshake",
		},
	} {
		t.Run(one.what, func(t *testing.T) {
			patience := 10 * time.Minute // longer than any test may take: it is not waited for
			z, err := migrate.DialZooKeeper(t.Context(), migrate.Ensemble{
				Servers: []string{one.address}, TLS: &one.tls, Timeout: patience,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			if _, _, err = z.Node(t.Context(), "/"); err == nil || !strings.Contains(err.Error(), one.says) {
				t.Errorf("error %v, want %q", err, one.says)
			}
		})
	}
}

// TestUnreachable: a source that does not come back ends the import after its patience, and the error includes the last
// failure to connect.
func TestUnreachable(t *testing.T) {
	ca := certs.New(t)
	for _, one := range []struct {
		what, address, says string
		tls                 *migrate.TLS
	}{
		{"closes each connection", listens(t, func(net.Conn) {}), "could not connect", nil},
		{
			"ends handshakes", listens(t, func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }), "as one does that speaks no TLS",
			&migrate.TLS{CACert: ca.File},
		},
	} {
		t.Run(one.what, func(t *testing.T) {
			z, err := migrate.DialZooKeeper(t.Context(), migrate.Ensemble{Servers: []string{one.address}, TLS: one.tls})
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			_, _, err = z.Node(t.Context(), "/")
			if err == nil || !strings.Contains(err.Error(), one.says) && !strings.Contains(err.Error(), "reset by peer") {
				t.Errorf("error %v, want %q", err, one.says)
			}
		})
	}
}

// TestTLSFiles: files that are none are refused before a connection is made.
func TestTLSFiles(t *testing.T) {
	ca := certs.New(t)
	me := ca.Client("zoo", "me")
	for _, one := range []struct {
		tls  migrate.TLS
		says string
	}{
		{migrate.TLS{Cert: me.Cert}, "give both"},
		{migrate.TLS{CACert: ca.Dir + "/none"}, "no such file"},
		{migrate.TLS{CACert: me.Key}, "holds no certificate of a CA"},
		{migrate.TLS{Cert: me.Key, Key: me.Cert}, "no pair of certificate and key"},
	} {
		_, err := migrate.DialZooKeeper(context.Background(), migrate.Ensemble{Servers: []string{"x:1"}, TLS: &one.tls})
		if err == nil || !strings.Contains(err.Error(), one.says) {
			t.Errorf("%+v: error %v, want %q", one.tls, err, one.says)
		}
	}
	if _, err := os.Stat(me.Cert); err != nil {
		t.Error(err)
	}
}
