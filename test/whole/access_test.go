package whole_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/auth"
	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/certs"
	"holdfast/test/whole"
	"holdfast/transport/guard"
	"holdfast/transport/secure"
)

// With auth: both over TLS, the name of a certificate has the roles of the file, and a token goes over TLS without a
// further word. A certificate that the file does not have may do nothing, though TLS takes it.
func TestRolesOfCertificates(t *testing.T) {
	ca := certs.New(t)
	id := config.Default().ClusterID
	files := map[session.Node]secure.Files{}
	for node := session.Node(1); node <= 3; node++ {
		files[node] = ca.Node(id, node, "n1", "n2", "n3")
	}
	token := auth.NewToken()
	line, err := auth.Line("bot", token.Digest(), auth.Reader, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "auth.yaml")
	text := "tokens:\n" + line + "\ncertificates:\n- {name: 'uri:holdfast://" + id + "/client/ann', roles: [client]}\n" +
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
		cfg.Auth = config.Auth{Mode: guard.Both, File: file}
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
