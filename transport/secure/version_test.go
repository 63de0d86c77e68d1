package secure_test

import (
	"crypto/tls"
	"errors"
	"testing"

	"holdfast/test/certs"
	"holdfast/transport/secure"
)

// Old versions of TLS are refused unless they are allowed.
func TestVersions(t *testing.T) {
	ca := certs.New(t)
	store, _ := open(t, ca.Node(cluster, 1))
	for _, tt := range []struct {
		server, client uint16
		ok             bool
	}{{0, 0, true}, {0, tls.VersionTLS12, true}, {tls.VersionTLS12, 0, true}} {
		e := serve(t, secure.ServerConfig{
			Store: store, Mode: secure.Require, Auth: secure.AuthNone, MinVersion: tt.server,
		})
		client, _ := open(t, secure.Files{CA: ca.File})
		_, err := ask(t, &secure.Dialer{Store: client, Mode: secure.Require, MinVersion: tt.client}, e.address)
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, err)
		}
		old, err := tls.Dial("tcp", e.address, &tls.Config{
			RootCAs: client.Current().Roots, MaxVersion: tls.VersionTLS12,
		})
		if err == nil {
			err = errors.Join(say(old), old.Close())
		}
		if (err == nil) != (tt.server == tls.VersionTLS12) {
			t.Errorf("TLS 1.2 at a server of %x: %v", tt.server, err)
		}
	}
}
