package whole_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/auth"
	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/authfile"
	"holdfast/test/certs"
	"holdfast/test/whole"
	"holdfast/transport/authz"
	"holdfast/transport/secure"
	"holdfast/tree"
)

// With auth: both over TLS, the name of a certificate has the roles of the file, and a token needs no further setting
// over TLS. A certificate outside the file may do nothing, though TLS accepts it.
func TestRolesOfCertificates(t *testing.T) {
	ca := certs.New(t)
	id := config.Default().ClusterID
	files := map[session.Node]secure.Files{}
	for node := session.Node(1); node <= 3; node++ {
		files[node] = ca.Node(id, node, "n1", "n2", "n3")
	}
	token := auth.NewToken()
	bots := authfile.Text(t, map[string]auth.Token{"bot": token}, map[string]auth.Roles{"bot": auth.Reader})
	file := filepath.Join(t.TempDir(), "auth.yaml")
	text := bots + "certificates:\n- {name: 'uri:holdfast://" + id + "/client/ann', roles: [client]}\n" +
		"- {name: 'cn:bob', roles: [operator]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	whole.RunSetup(t, whole.Setup{Change: func(cfg *config.Config) {
		f := files[cfg.Node]
		cfg.TLS = config.TLS{
			Nodes: secure.Require, Clients: secure.Require, ClientAuth: secure.AuthOptional,
			Cert: f.Cert, Key: f.Key, CA: f.CA,
		}
		cfg.Auth = config.Auth{Mode: authz.Both, File: file}
	}}, func(c *whole.Cluster) {
		t := c.T // the bubble's
		as := func(name string) *client.TLS {
			f := ca.Client(id, name)
			return &client.TLS{CACert: ca.File, Cert: f.Cert, Key: f.Key}
		}
		ann := c.ClientWith("ann", as("ann"))
		defer ann.Close()
		hers := c.Session(ann, 20*time.Second)
		list := func(cl *client.Client) error {
			_, err := cl.List(t.Context(), client.ListOptions{})
			return err
		}
		if err := list(ann); !errors.Is(err, session.ErrForbidden) {
			t.Errorf("ann, who is a client, lists: got %v", err)
		}
		bob := c.ClientWith("bob", as("bob"))
		defer bob.Close()
		if err := list(bob); err != nil {
			t.Errorf("bob, who is an operator, lists: %v", err)
		}
		eve := c.ClientWith("eve", as("eve"))
		defer eve.Close()
		if _, err := eve.Get(t.Context(), hers.ID()); !errors.Is(err, session.ErrUnauthenticated) {
			t.Errorf("eve, whom the file does not have: got %v", err)
		}
		var endpoints []string
		for _, n := range c.Names {
			endpoints = append(endpoints, n+":7400")
		}
		bot, err := client.New(client.Config{
			Endpoints: endpoints, Dial: c.Host("bot").Dial, TLS: as("ann"), Token: client.StaticToken(token.Secret()),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer bot.Close()
		if err := list(bot); err != nil {
			t.Errorf("a token, which goes before the certificate, lists: %v", err)
		}
	})
}

// Each role can do with the SDK what docs/operations/security.md lists: readers and operators read the tree and watch
// it, without a session. Other requests are refused at once, with the role that they need.
func TestRolesWithTheSDK(t *testing.T) {
	file := filepath.Join(t.TempDir(), "auth.yaml")
	tokens := authfile.Make(authfile.EachRole())
	authfile.Write(t, file, tokens, authfile.EachRole())
	whole.RunSetup(t, whole.Setup{Change: func(cfg *config.Config) {
		cfg.Auth = config.Auth{Mode: authz.Tokens, File: file}
	}}, func(c *whole.Cluster) {
		t := c.T // the bubble's
		as := func(name string) *client.Client {
			cl, err := client.New(client.Config{
				Endpoints: []string{"n1:7400", "n2:7400", "n3:7400"}, Dial: c.Host(name).Dial, TokenWithoutTLS: true,
				Token: client.StaticToken(tokens[name].Secret()),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { cl.Close() })
			return cl
		}
		admin := as("admin")
		defer admin.Close()
		writer := c.Session(admin, 20*time.Second)
		if _, err := writer.Tree().Create(t.Context(), "/a", []byte("1"), client.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for name, may := range map[string]string{
			"client": "open read watch", "reader": "read watch list", "operator": "read watch list",
			"admin": "open read watch list",
		} {
			cl := as(name)
			for call, do := range map[string]func(context.Context) error{
				"open": func(ctx context.Context) error {
					s, err := cl.Open(ctx, client.SessionOptions{Timeout: 20 * time.Second})
					if err == nil {
						err = s.Close(ctx)
					}
					return err
				},
				"read": func(ctx context.Context) error {
					e, err := cl.Tree().Get(ctx, "/a")
					if err == nil && string(e.Data) != "1" {
						t.Errorf("%s reads %q", name, e.Data)
					}
					return err
				},
				"watch": func(ctx context.Context) error {
					for _, err := range cl.Tree().Watch(ctx, "/a", tree.WatchRecursive) {
						return err // with the first event, which says that the watch has begun
					}
					return nil
				},
				"list": func(ctx context.Context) error {
					_, err := cl.List(ctx, client.ListOptions{})
					return err
				},
			} {
				began := time.Now()
				err := do(t.Context())
				switch allowed := strings.Contains(may, call); {
				case allowed && err != nil, !allowed && !errors.Is(err, session.ErrForbidden):
					t.Errorf("%s, who may %s: %s: got %v", name, may, call, err)
				case !allowed && time.Since(began) > time.Second:
					t.Errorf("%s: %s was refused after %v", name, call, time.Since(began))
				}
			}
			if err := cl.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
