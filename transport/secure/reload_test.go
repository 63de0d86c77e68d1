package secure_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/test/bubble"
	"holdfast/test/certs"
	"holdfast/transport/secure"
	"holdfast/transport/secure/issue"
)

// A certificate that is not valid yet is loaded once it is, though its files do not change any more: the CA's clock may
// be a little ahead. Until then it is logged once, although the reason names another time at each look.
func TestReloadOfACertificateThatIsNotValidYet(t *testing.T) {
	ca := certs.New(t)
	files := ca.Node(cluster, 1)
	now := time.Now()
	store, log := open(t, files, func(c *secure.StoreConfig) {
		c.Clock = func() time.Time { return now }
		c.Check = func(m *secure.Material, at time.Time) error { return m.Trusted(at) }
	})
	begins := now.Add(time.Minute)
	next := ca.Issue(secure.NodeName(cluster, 1), issue.Span{From: begins, To: begins.Add(time.Hour)})
	for from, to := range map[string]string{next.Cert: files.Cert, next.Key: files.Key} {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		certs.Write(t, to, b)
	}
	before := store.Current()
	for range 3 {
		store.Reload()
		now = now.Add(10 * time.Second)
	}
	if store.Current() != before || store.LoadError() == nil || store.Stats().Failures != 1 ||
		strings.Count(log.String(), "not reloaded") != 1 {
		t.Errorf("before its time: complaint %v, %d failures, want one\n%s", store.LoadError(), store.Stats().Failures, log)
	}
	now = begins.Add(time.Second)
	store.Reload()
	if store.Current() == before || store.LoadError() != nil || store.Stats().Reloads != 1 {
		t.Errorf("a certificate that has become valid was not loaded: %v", store.LoadError())
	}
}

// The end of the own certificate is announced also while the bundle has a CA that has expired, as after a change of the
// CA: each of them has a line.
func TestExpiryOfEachIsAnnounced(t *testing.T) {
	ca := certs.New(t)
	day := 24 * time.Hour
	begins := time.Now()
	own := ca.Issue(secure.NodeName(cluster, 1), issue.Span{From: begins, To: begins.Add(90 * day)})
	former := ca.Issue(secure.NodeName(cluster, 2), issue.Span{From: begins, To: begins.Add(30 * day)})
	b, err := os.ReadFile(former.Cert)
	if err != nil {
		t.Fatal(err)
	}
	bundle := own
	bundle.CA = ca.Dir + "/both.pem"
	certs.Write(t, bundle.CA, ca.PEM(), b)
	store, log := open(t, bundle, func(c *secure.StoreConfig) {
		c.Clock = func() time.Time { return begins.Add(80 * day) }
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // Run looks once
	if err := store.Run(ctx); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]int{"has expired": 1, "expires soon": 1, "node 1": 1, "node 2": 1} {
		if got := strings.Count(log.String(), text); got != want {
			t.Errorf("the log says %q %d times, want %d:\n%s", text, got, want, log)
		}
	}
}

// A connection that its port closes during the handshake, to free a slot for another, is not kept: the last bytes of
// the handshake may have come already, so that it succeeds.
func TestCloseDuringTheHandshake(t *testing.T) {
	for !closedDuringTheHandshake(t) { // until the last bytes have come in time
	}
}

// closedDuringTheHandshake reports whether the handshake succeeded although the connection was closed.
func closedDuringTheHandshake(t *testing.T) bool {
	t.Helper()
	ca := certs.New(t)
	files := ca.Node(cluster, 1)
	files.ClientCA = ca.Dir + "/clients.pem"
	certs.Write(t, files.ClientCA, ca.PEM())
	store, _ := open(t, files)
	var accepted net.Conn
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := secure.NewServer(secure.ServerConfig{
		Store: store, Mode: secure.Require, Auth: secure.AuthRequire,
		Names: func(*x509.Certificate) error { return accepted.Close() },
	}).Listener(raw)
	defer func() { _ = l.Close() }()
	client, _ := open(t, ca.Client(cluster, "ann"))
	var dialled sync.WaitGroup
	dialled.Go(func() {
		d := secure.Dialer{Store: client, Mode: secure.Require}
		if conn, dialErr := d.DialContext(t.Context(), raw.Addr().String()); dialErr == nil {
			_ = conn.Close()
		}
	})
	if accepted, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	err = secure.Handshake(t.Context(), accepted)
	dialled.Wait()
	if err != nil {
		return false
	}
	certs.Write(t, files.ClientCA, certs.New(t).PEM())
	store.Reload()
	if got := store.Stats(); got.Reloads != 1 || got.Closed != 0 {
		t.Errorf("%d reloads, %d connections closed by it, want 1 and 0: the closed one was kept", got.Reloads, got.Closed)
	}
	return true
}

// A file of CAs of which a part cannot be read is refused as a whole: it may be being written, or two files were joined
// without a line's end between them. With the other part alone, connections of good certificates would be closed.
func TestReloadOfHalfAFile(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	files := ca.Node(cluster, 1)
	files.CA = ca.Dir + "/both.pem"
	certs.Write(t, files.CA, ca.PEM(), other.PEM())
	store, _ := open(t, files)
	before := store.Current()
	damaged := bytes.Replace(other.PEM(), []byte("\nM"), []byte("\n*"), 1)
	for name, parts := range map[string][][]byte{
		"cut short":                 {ca.PEM(), other.PEM()[:len(other.PEM())/2]},
		"cut in its last line":      {ca.PEM(), other.PEM()[:len(other.PEM())-9]},
		"damaged at the end":        {ca.PEM(), damaged},
		"damaged at the beginning":  {damaged, ca.PEM()},
		"joined without an end":     {bytes.TrimSpace(ca.PEM()), other.PEM(), ca.PEM()},
		"joined, and nothing whole": {bytes.TrimSpace(ca.PEM()), other.PEM()},
	} {
		certs.Write(t, files.CA, parts...)
		store.Reload()
		err := store.LoadError()
		if store.Current() != before || err == nil || !strings.Contains(err.Error(), "blocks cannot be read") {
			t.Errorf("%s: taken, or complained of as %v", name, err)
		}
	}
	certs.Write(t, files.CA, other.PEM(), []byte("some words\n"), ca.PEM())
	if store.Reload(); store.Current() == before {
		t.Errorf("a whole file was not taken: %v", store.LoadError())
	}
}

// A bundle that is written one certificate after the other can be read after each. A look in between does not install
// it: the connections of the CAs that are not there yet would be closed. Files count once two looks have found them.
func TestReloadOfFilesThatAreBeingWritten(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	files := ca.Node(cluster, 1)
	files.CA = ca.Dir + "/both.pem"
	certs.Write(t, files.CA, ca.PEM(), other.PEM())
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		until := func(second int) {
			time.Sleep(time.Duration(second)*time.Second - time.Since(began))
			synctest.Wait()
		}
		store, _ := open(t, files, func(c *secure.StoreConfig) {
			c.Every = 10 * time.Second
			c.Clock = func() time.Time { return began }
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- store.Run(ctx) }()
		until(9)
		certs.Write(t, files.CA, ca.PEM())
		until(11)
		certs.Write(t, files.CA, ca.PEM(), other.PEM())
		until(19)
		if got := store.Stats(); got.Reloads != 0 || store.LoadError() != nil {
			t.Errorf("the first half of the file was taken: %+v, %v", got, store.LoadError())
		}
		certs.Write(t, files.CA, other.PEM(), ca.PEM())
		until(29)
		if got := store.Stats(); got.Reloads != 1 {
			t.Errorf("after the interval there were %d reloads, want 1: %v", got.Reloads, store.LoadError())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
