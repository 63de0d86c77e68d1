// Package secure puts TLS on the ports of nodes and under the connections to them.
//
// A [Store] keeps the certificate, the key and the CAs of one process, and loads them anew when their files change. A
// [Server] wraps a listener, a [Dialer] makes connections. Both take their files from a Store, check whom the other
// side's certificate names, and tell a side that speaks plain from one that speaks TLS. A store closes connections
// whose certificates it no longer accepts after a reload.
//
// Certificates name nodes, clients and administrators in a URI, see [Name]. [IdentityOf] returns whom a caller's
// verified certificate names.
package secure

// Mode says what one side of a port speaks.
type Mode string

const (
	// Off speaks without TLS.
	Off Mode = "off"
	// Prefer accepts both, and dials with TLS first and without it where the other side speaks without it. It is for the
	// time of a change: whoever reaches the port may still speak without TLS.
	Prefer Mode = "prefer"
	// Require accepts and dials with TLS alone.
	Require Mode = "require"
)

// Secure reports whether the mode needs certificates.
func (m Mode) Secure() bool { return m == Prefer || m == Require }

// Auth says whether a port asks its callers for certificates.
type Auth string

const (
	// AuthNone asks for none.
	AuthNone Auth = "none"
	// AuthOptional verifies the certificate of a caller that has one.
	AuthOptional Auth = "optional"
	// AuthRequire refuses callers without one.
	AuthRequire Auth = "require"
)
