package whole_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/certs"
	"holdfast/test/whole"
	"holdfast/transport/secure"
	"holdfast/tree"
)

// Clients with certificates, over whole nodes: access lists identify them by their subjects, a client without TLS
// learns why it is refused, and the CA of some clients is removed without a restart and without losing a session.
func TestClientsOverTLS(t *testing.T) {
	ca, guests := certs.New(t), certs.New(t)
	clientCA := filepath.Join(ca.Dir, "clients.pem")
	certs.Write(t, clientCA, ca.PEM(), guests.PEM())
	files := map[session.Node]secure.Files{}
	for node := session.Node(1); node <= 3; node++ {
		files[node] = ca.Node(config.Default().ClusterID, node, "n1", "n2", "n3")
	}
	whole.RunSetup(t, whole.Setup{Change: func(cfg *config.Config) {
		f := files[cfg.Node]
		cfg.TLS = config.TLS{
			Nodes: secure.Require, Clients: secure.Require, ClientAuth: secure.AuthRequire,
			Cert: f.Cert, Key: f.Key, CA: f.CA, ClientCA: clientCA,
		}
	}}, func(c *whole.Cluster) {
		t := c.T // the bubble's
		as := func(by *certs.CA, name string) *client.TLS {
			f := by.Client(config.Default().ClusterID, name)
			return &client.TLS{CACert: ca.File, Cert: f.Cert, Key: f.Key}
		}
		ann, bob := c.ClientWith("ann", as(ca, "ann")), c.ClientWith("bob", as(guests, "bob"))
		defer ann.Close()
		defer bob.Close()
		hers, his := c.Session(ann, 40*time.Second), c.Session(bob, 40*time.Second)
		ctx := t.Context()
		only := tree.ACL{{Permissions: tree.All, Scheme: tree.X509, ID: "CN=ann"}}
		if _, err := hers.Tree().Create(ctx, "/hers", []byte("x"), client.CreateOptions{ACL: only}); err != nil {
			t.Fatal(err)
		}
		if _, err := hers.Tree().Get(ctx, "/hers"); err != nil {
			t.Errorf("ann: %v", err)
		}
		_, err := his.Tree().Get(ctx, "/hers")
		if !errors.Is(err, &tree.RefusedError{Code: tree.NoPermission}) {
			t.Errorf("bob reads what is ann's: %v", err)
		}
		for name, tls := range map[string]*client.TLS{"plain": nil, "without a certificate": {CACert: ca.File}} {
			refused := c.ClientWith("eve", tls)
			for call, do := range map[string]func() error{
				"open": func() error {
					_, failed := refused.Open(ctx, client.SessionOptions{Timeout: 20 * time.Second})
					return failed
				},
				"read":   func() error { _, failed := refused.Tree().Get(ctx, "/"); return failed },
				"a call": func() error { _, failed := refused.Members(ctx); return failed },
			} {
				began := time.Now()
				if err = do(); !errors.Is(err, session.ErrTLS) || errors.Is(err, client.ErrUnreachable) ||
					time.Since(began) > time.Second {
					t.Errorf("%s: %s: %v after %v, want ErrTLS at once", name, call, err, time.Since(began))
				}
			}
			if tls == nil && !strings.Contains(fmt.Sprint(err), "client_tls is require there") {
				t.Errorf("%s: %v does not name the setting", name, err)
			}
			_ = refused.Close()
		}
		certs.Write(t, clientCA, ca.PEM())
		time.Sleep(11 * time.Second) // changed files are loaded within 10 s
		if _, err = hers.Tree().Set(ctx, "/hers", []byte("y")); err != nil || hers.Context().Err() != nil {
			t.Errorf("ann, whose CA stayed: %v, %v", err, hers.Context().Err())
		}
		soon, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		if _, err = his.Tree().Sync(soon); err == nil {
			t.Error("bob, whose CA went away, is still served")
		}
		certs.Write(t, clientCA, ca.PEM(), guests.PEM())
		select {
		case <-his.Context().Done():
			t.Error("bob's session was lost, though its CA came back in time")
		case <-time.After(15 * time.Second):
		}
		if _, err = his.Tree().Sync(ctx); err != nil {
			t.Errorf("bob, whose CA came back: %v", err)
		}
	})
}
