package client

import (
	"context"
	"net"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/credentials"

	"holdfast/session"
	"holdfast/transport/secure"
)

// TLS says how a client speaks TLS with nodes. The files are PEM. The client looks whether they have changed before
// each new connection, and goes on with the former ones while they cannot be used.
//
// When a node speaks without TLS, or one side does not accept the certificate of the other, errors are a
// [session.TLSError], which says what to change on which side. A call ends with it when that is so for each node that
// answers; sessions that are held, and watches that are in place, look further.
type TLS struct {
	// CACert is the file of the CAs that sign the certificates of nodes; empty takes those of the system.
	CACert string
	// Cert and Key are the files of the client's own certificate and its key; empty for none. Access lists of the tree
	// and the budgets of nodes know the client by it.
	Cert, Key string
	// ServerName is the name that the nodes' certificates must have; empty is the host of each address.
	ServerName string
}

// dialer makes the connections of a client. It tells a node with TLS from one without, whatever the client speaks.
type dialer struct{ *secure.Dialer }

// newDialer returns a dialer over dial, which may be nil. Its error is a [session.FieldError].
func newDialer(t *TLS, dial func(context.Context, string) (net.Conn, error), logger hclog.Logger) (dialer, error) {
	d := &secure.Dialer{
		Mode: secure.Off, Dial: dial, Protocols: []string{"h2"}, Fresh: true, Theirs: "client_tls",
		Ours: "give this client the CA of the nodes (Config.TLS of the SDK, --cacert of the command line)",
	}
	if t == nil {
		return dialer{d}, nil
	}
	if (t.Cert == "") != (t.Key == "") {
		return dialer{d}, &session.FieldError{Field: "tls.cert", Limit: "set together with tls.key, or neither"}
	}
	store, err := secure.Open(secure.StoreConfig{
		Files: secure.Files{Cert: t.Cert, Key: t.Key, CA: t.CACert}, Logger: logger,
	})
	if err != nil {
		return dialer{d}, &session.FieldError{Field: "tls", Limit: "files that can be used: " + err.Error()}
	}
	d.Mode, d.Store, d.ServerName = secure.Require, store, t.ServerName
	d.Ours = "this client requires TLS (Config.TLS of the SDK, --cacert of the command line): leave that away, or set " +
		"client_tls there"
	return dialer{d}, nil
}

// named returns a dial function for the addresses of a server: its certificate has the server's name.
func (d dialer) named(server string) func(context.Context, string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(server)
	if err != nil || d.ServerName != "" {
		return d.DialContext
	}
	as := *d.Dialer
	as.ServerName = host
	return as.DialContext
}

// credentials are gRPC's: it must know that the connection is one with TLS. nil is one without.
func (d dialer) credentials() credentials.TransportCredentials {
	if !d.Mode.Secure() {
		return nil
	}
	return secure.Credentials()
}
