package secure_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/certs"
	"holdfast/transport/secure"
	"holdfast/transport/secure/issue"
)

const cluster = "test"

// syncBuffer is a log that can be read while it is written.
type syncBuffer struct {
	mu    sync.Mutex
	bytes bytes.Buffer // guarded by mu
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.String()
}

func open(t *testing.T, f secure.Files, change ...func(*secure.StoreConfig)) (*secure.Store, *syncBuffer) {
	t.Helper()
	log := &syncBuffer{}
	cfg := secure.StoreConfig{Files: f, Logger: hclog.New(&hclog.LoggerOptions{Output: log})}
	for _, c := range change {
		c(&cfg)
	}
	s, err := secure.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, log
}

// echo is a port that sends back what it gets.
type echo struct {
	address string
	server  *secure.Server
	log     *syncBuffer
}

// says waits until the port's log has a text: a port logs a refusal once it has sent it.
func (e echo) says(t *testing.T, text string) {
	t.Helper()
	said := func() string { return strings.NewReplacer(`\\\"`, `"`, `\"`, `"`).Replace(e.log.String()) }
	for begun := time.Now(); !strings.Contains(said(), text); time.Sleep(time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatalf("the server's log is %q, want %q", e.log, text)
		}
	}
}

func serve(t *testing.T, cfg secure.ServerConfig) echo {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := echo{address: raw.Addr().String(), log: &syncBuffer{}}
	cfg.Setting, cfg.Port, cfg.Logger = "client_tls", "client_listen", hclog.New(&hclog.LoggerOptions{Output: e.log})
	e.server = secure.NewServer(cfg)
	l := e.server.Listener(raw)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return e
}

// say sends a word over a connection and wants it back.
func say(conn net.Conn) error {
	if _, err := conn.Write([]byte("word")); err != nil {
		return err
	}
	back := make([]byte, 64) // room for the whole answer of a port that refuses
	n, err := conn.Read(back)
	if err == nil && string(back[:n]) != "word" {
		err = errors.New("another word came back")
	}
	return err
}

// ask dials and says a word. It returns the connection, which the test closes.
func ask(t *testing.T, d *secure.Dialer, address string) (net.Conn, error) {
	t.Helper()
	if d.Ours == "" {
		d.Ours, d.Theirs = "this client has its own", "client_tls"
	}
	conn, err := d.DialContext(t.Context(), address)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, say(conn)
}

// Each pair of modes speaks, or is refused with an error that names the side that must change, on both sides.
func TestModes(t *testing.T) {
	ca := certs.New(t)
	store, _ := open(t, ca.Node(cluster, 1))
	client, _ := open(t, ca.Client(cluster, "ann"))
	for _, tt := range []struct {
		server, dialer secure.Mode
		tls            bool
		dialerSays     string
		serverSays     string
	}{
		{secure.Off, secure.Off, false, "", ""},
		{secure.Prefer, secure.Off, false, "", ""},
		{
			secure.Require, secure.Off, false, "it requires TLS, and this side speaks without TLS: client_tls is require there",
			"it speaks without TLS, and this port requires TLS: client_tls is require here",
		},
		{secure.Off, secure.Prefer, false, "", "it speaks TLS, and this port does not: client_tls is off here"},
		{secure.Prefer, secure.Prefer, true, "", ""},
		{secure.Require, secure.Prefer, true, "", ""},
		{
			secure.Off, secure.Require, false, "it speaks without TLS: client_tls is off there",
			"it speaks TLS, and this port does not: client_tls is off here",
		},
		{secure.Prefer, secure.Require, true, "", ""},
		{secure.Require, secure.Require, true, "", ""},
	} {
		t.Run(string(tt.dialer)+" to "+string(tt.server), func(t *testing.T) {
			e := serve(t, secure.ServerConfig{Store: store, Mode: tt.server, Auth: secure.AuthRequire})
			conn, err := ask(t, &secure.Dialer{Store: client, Mode: tt.dialer}, e.address)
			if tt.dialerSays == "" {
				if err != nil {
					t.Fatal(err)
				}
				if got := secure.PeerCertificate(conn) != nil; got != tt.tls {
					t.Errorf("TLS is %v, want %v", got, tt.tls)
				}
			} else if !errors.Is(err, session.ErrTLS) || !strings.Contains(err.Error(), tt.dialerSays) {
				t.Errorf("the dialer has %v, want %q", err, tt.dialerSays)
			}
			e.says(t, tt.serverSays)
			if (tt.serverSays != "") != (e.server.Refused() == 1) {
				t.Errorf("%d refused", e.server.Refused())
			}
		})
	}
}

// A refused caller gets the reason, and so does the log of the port.
func TestCertificatesThatAreRefused(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	store, _ := open(t, ca.Node(cluster, 1))
	ann := secure.Name{Cluster: cluster, Kind: secure.KindClient, Name: "ann"}
	over := issue.Span{From: time.Now().Add(-48 * time.Hour), To: time.Now().Add(-24 * time.Hour)}
	names := func(c *x509.Certificate) error {
		n, err := secure.NameOf(c)
		if err == nil && n.Cluster != cluster {
			err = errors.New("this is cluster test, not that of " + n.String())
		}
		return err
	}
	foreign := other.Client(cluster, "eve")
	foreign.CA = ca.File
	for name, tt := range map[string]struct {
		files      secure.Files
		dialerSays string
		serverSays string
	}{
		"no certificate": {secure.Files{CA: ca.File}, "requires a certificate", "didn't provide a certificate"},
		"another CA":     {foreign, "does not know the CA", `it is of client eve of cluster "test"`},
		"another cluster": {
			ca.Client("elsewhere", "ann"), "does not accept this side's certificate",
			`not that of client ann of cluster "elsewhere"`,
		},
		"expired": {ca.Issue(ann, over), "has expired", "certificate has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			e := serve(t, secure.ServerConfig{Store: store, Mode: secure.Require, Auth: secure.AuthRequire, Names: names})
			client, _ := open(t, tt.files)
			_, err := ask(t, &secure.Dialer{Store: client, Mode: secure.Require}, e.address)
			if !errors.Is(err, session.ErrTLS) || !strings.Contains(err.Error(), tt.dialerSays) {
				t.Errorf("the dialer has %v, want %q", err, tt.dialerSays)
			}
			e.says(t, tt.serverSays)
		})
	}
}

// A dialer believes neither a server of another CA, nor one of another name, nor one whose certificate has expired.
func TestServersThatAreRefused(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	over := issue.Span{From: time.Now().Add(-48 * time.Hour), To: time.Now().Add(-24 * time.Hour)}
	for name, tt := range map[string]struct {
		server secure.Files
		name   string
		says   string
	}{
		"another CA":   {other.Node(cluster, 1), "", "signed by unknown authority"},
		"another name": {ca.Node(cluster, 1, "n1"), "n2", "--server-name"},
		"expired":      {ca.Issue(secure.NodeName(cluster, 1), over, "127.0.0.1"), "", "expired"},
		"a client's":   {ca.Client(cluster, "ann"), "", "not accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			store, _ := open(t, tt.server)
			e := serve(t, secure.ServerConfig{Store: store, Mode: secure.Require, Auth: secure.AuthNone})
			client, _ := open(t, secure.Files{CA: ca.File})
			_, err := ask(t, &secure.Dialer{Store: client, Mode: secure.Require, ServerName: tt.name}, e.address)
			if !errors.Is(err, session.ErrTLS) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("the dialer has %v, want %q", err, tt.says)
			}
		})
	}
}

// Files that change are loaded as a whole: a certificate without its key keeps the former pair, and is logged once.
func TestReloadIsWhole(t *testing.T) {
	ca := certs.New(t)
	files := ca.Node(cluster, 1)
	store, log := open(t, files)
	before := store.Current()
	store.Reload()
	if store.Current() != before {
		t.Error("files that did not change were loaded")
	}
	next := ca.Node(cluster, 1)
	move := func(from, to string) {
		t.Helper()
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		certs.Write(t, to, b)
	}
	move(next.Cert, files.Cert)
	for range 3 {
		store.Reload()
	}
	if store.Current() != before || store.LoadError() == nil {
		t.Error("a certificate without its key was taken, or not complained about")
	}
	if n := strings.Count(log.String(), "not reloaded"); n != 1 || store.Stats().Failures != 1 {
		t.Errorf("logged %d times, %d failures: want 1\n%s", n, store.Stats().Failures, log)
	}
	move(next.Key, files.Key)
	store.Reload()
	if store.Current() == before || store.LoadError() != nil || store.Stats().Reloads != 1 {
		t.Errorf("the pair was not loaded: %v", store.LoadError())
	}
	for name, spoil := range map[string]func() error{
		"missing": func() error { return os.Remove(files.CA) },
		"empty":   func() error { return os.WriteFile(files.CA, nil, 0o600) },
		"garbage": func() error { return os.WriteFile(files.CA, []byte("garbage"), 0o600) },
		"huge":    func() error { return os.WriteFile(files.CA, make([]byte, 2<<20), 0o600) },
	} {
		good := store.Current()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		store.Reload()
		if store.Current() != good || store.LoadError() == nil {
			t.Errorf("%s CA: taken, or no complaint", name)
		}
		_, err := secure.Open(secure.StoreConfig{Files: files})
		if err == nil || !strings.Contains(err.Error(), files.CA) {
			t.Errorf("%s CA: opened with %v, want an error with the file's name", name, err)
		}
		certs.Write(t, files.CA, ca.PEM())
		store.Reload()
		if store.LoadError() != nil {
			t.Errorf("after the %s CA: %v", name, store.LoadError())
		}
	}
}

// A reload ends the connections whose certificates are no longer accepted, on both sides, and no others.
func TestReloadEndsWhatIsNoLongerAccepted(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	files := ca.Node(cluster, 1)
	bundle := files
	bundle.ClientCA = ca.Dir + "/clients.pem"
	certs.Write(t, bundle.ClientCA, ca.PEM(), other.PEM())
	store, log := open(t, bundle)
	e := serve(t, secure.ServerConfig{Store: store, Mode: secure.Require, Auth: secure.AuthOptional})
	dial := func(f secure.Files) (net.Conn, *secure.Store) {
		t.Helper()
		f.CA = ca.File
		client, _ := open(t, f)
		conn, err := ask(t, &secure.Dialer{Store: client, Mode: secure.Require}, e.address)
		if err != nil {
			t.Fatal(err)
		}
		return conn, client
	}
	stays, _ := dial(ca.Client(cluster, "ann"))
	goes, _ := dial(other.Client(cluster, "bob"))
	nobody, _ := dial(secure.Files{})
	certs.Write(t, bundle.ClientCA, ca.PEM())
	store.Reload()
	if got := store.Stats().Closed; got != 1 {
		t.Errorf("%d connections closed, want 1: %s", got, log)
	}
	for name, conn := range map[string]net.Conn{"ann": stays, "nobody": nobody} {
		if err := say(conn); err != nil {
			t.Errorf("the connection of %s: %v", name, err)
		}
	}
	if say(goes) == nil {
		t.Error("the connection whose CA was removed goes on")
	}

	// The other way round: the dialler's CA no longer has the server's.
	own := secure.Files{CA: ca.Dir + "/mine.pem"}
	certs.Write(t, own.CA, ca.PEM())
	client, _ := open(t, own)
	conn, err := ask(t, &secure.Dialer{Store: client, Mode: secure.Require, Fresh: true}, e.address)
	if err != nil {
		t.Fatal(err)
	}
	certs.Write(t, own.CA, other.PEM())
	client.Reload()
	if say(conn) == nil {
		t.Error("the connection to a server whose CA was removed goes on")
	}
}

// A certificate's end is announced ahead of time, once a day.
func TestExpiryIsAnnounced(t *testing.T) {
	ca := certs.New(t)
	day := 24 * time.Hour
	begins := time.Now()
	f := ca.Issue(secure.NodeName(cluster, 1), issue.Span{From: begins, To: begins.Add(90 * day)})
	for _, tt := range []struct {
		after time.Duration
		says  string
	}{{day, ""}, {59 * day, ""}, {61 * day, "expires soon"}, {91 * day, "has expired"}} {
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		store, log := open(t, f, func(c *secure.StoreConfig) {
			c.Clock = func() time.Time {
				if asked++; asked == 20 { // Run has looked several times
					cancel()
				}
				return begins.Add(tt.after)
			}
			c.Every = time.Millisecond
		})
		if err := store.Run(ctx); err != nil {
			t.Error(err)
		}
		cancel()
		said := strings.Contains(log.String(), "soon") || strings.Contains(log.String(), "expired")
		if !strings.Contains(log.String(), tt.says) || said != (tt.says != "") ||
			strings.Count(log.String(), "\n") > 1 {
			t.Errorf("after %v the log is %q, want %q once", tt.after, log, tt.says)
		}
		if got := store.Stats().Expires; !got.Equal(begins.Add(90 * day).Truncate(time.Second)) {
			t.Errorf("it expires %v", got)
		}
	}
}

// A silent caller is not served for ever, and holds up nobody.
func TestSilentCallers(t *testing.T) {
	ca := certs.New(t)
	store, _ := open(t, ca.Node(cluster, 1))
	server := secure.NewServer(secure.ServerConfig{Store: store, Mode: secure.Require, Auth: secure.AuthNone})
	ours, theirs := net.Pipe()
	defer theirs.Close()
	l := server.Listener(&once{conn: ours})
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := secure.Handshake(ctx, conn); err == nil || errors.Is(err, session.ErrTLS) {
		t.Errorf("a silent caller: %v, want the end of its time", err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection without a handshake can be read")
	}
}

// once is a listener of one connection.
type once struct {
	net.Listener
	conn net.Conn
}

func (o *once) Accept() (net.Conn, error) { return o.conn, nil }
