package client

import (
	"context"
	"net"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/credentials"

	"holdfast/session"
	"holdfast/transport/secure"
)

// TLS configures a client's TLS connections to nodes. The files are PEM. Before each new connection the client checks
// whether the files have changed, and uses the former contents while the new contents are invalid.
//
// When a node does not use TLS, or one side rejects the other's certificate, errors are a [session.TLSError], which
// explains the change to make and on which side. A call ends with this error when each node that answers causes it;
// held sessions and established watches continue to search.
type TLS struct {
	// CACert is the file of the CAs that sign the certificates of nodes; empty means the system's CAs.
	CACert string
	// Cert and Key are the files of the client's certificate and key; empty for none. Access lists of the tree and the
	// budgets of nodes identify the client by the certificate.
	Cert, Key string
	// ServerName is the name that the nodes' certificates must have; empty is the host of each address.
	ServerName string
}

// dialer makes the connections of a client. It detects whether a node uses TLS, with or without TLS on the client's
// side.
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

// credentials are gRPC's, which must know whether the connection uses TLS. nil is without TLS.
func (d dialer) credentials() credentials.TransportCredentials {
	if !d.Mode.Secure() {
		return nil
	}
	return secure.Credentials()
}
