// Package secure provides TLS on the ports of nodes and on the connections to them.
//
// A [Store] keeps the certificate, the key and the CAs of one process, and reloads them when their files change. A
// [Server] wraps a listener, a [Dialer] makes connections. Both take their files from a Store, check the name in the
// other side's certificate, and detect a side that speaks without TLS. A store closes connections whose certificates it
// no longer accepts after a reload.
//
// Certificates name nodes, clients and administrators in a URI, see [Name]. [IdentityOf] returns the identity in a
// caller's verified certificate.
package secure

// Mode says whether one side of a port uses TLS.
type Mode string

const (
	// Off uses no TLS.
	Off Mode = "off"
	// Prefer accepts both, and dials with TLS first and without TLS where the other side has none. It is for the
	// transition: meanwhile, any client that reaches the port may still connect without TLS.
	Prefer Mode = "prefer"
	// Require accepts and dials only with TLS.
	Require Mode = "require"
)

// Secure reports whether the mode needs certificates.
func (m Mode) Secure() bool { return m == Prefer || m == Require }

// Auth says whether a port requests certificates from its callers.
type Auth string

const (
	// AuthNone requests none.
	AuthNone Auth = "none"
	// AuthOptional verifies the certificate of a caller that sends one.
	AuthOptional Auth = "optional"
	// AuthRequire refuses callers without a certificate.
	AuthRequire Auth = "require"
)
