package secure

import (
	"context"
	"crypto/x509"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Identity is the identity in a caller's verified certificate.
type Identity struct {
	// Name is the name in this project's form; zero for none.
	Name Name
	// Subject is the subject of the certificate, as [SubjectOf] writes it.
	Subject string
	// Certificate is the verified certificate.
	Certificate *x509.Certificate
}

// IdentityOf returns the identity of a call's author: ctx is the context of a gRPC handler, or of an HTTP request over
// a connection that [HTTPContext] has seen. It is false for callers without a verified certificate.
func IdentityOf(ctx context.Context) (Identity, bool) {
	c := certificateOf(ctx)
	if c == nil {
		return Identity{}, false
	}
	name, err := NameOf(c)
	if err != nil {
		return Identity{}, false // no port accepts such a certificate
	}
	return Identity{name, SubjectOf(c), c}, true
}

func certificateOf(ctx context.Context) *x509.Certificate {
	if conn, ok := ctx.Value(connKey{}).(net.Conn); ok {
		return PeerCertificate(conn)
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 || len(info.State.VerifiedChains[0]) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0][0]
}

type connKey struct{}

// HTTPContext is for [net/http.Server.ConnContext].
func HTTPContext(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// ConnOf returns the connection that [HTTPContext] has seen; nil for none.
func ConnOf(ctx context.Context) net.Conn {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	return conn
}

// Credentials returns gRPC credentials for connections that a [Server] has accepted or a [Dialer] has made. They add
// nothing to the connection, and pass the other side's identity to gRPC. Other connections count as connections without
// TLS.
func Credentials() credentials.TransportCredentials { return overConn{} }

type overConn struct{}

// ClientHandshake does nothing: a [Dialer] has done the handshake.
func (overConn) ClientHandshake(_ context.Context, _ string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, infoOf(conn), nil
}

// ServerHandshake does the handshake.
func (overConn) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	//nolint:forbidigo // gRPC gives no context; the handshake has its own limit of time
	if err := Handshake(context.Background(), conn); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return conn, infoOf(conn), nil
}

func infoOf(conn net.Conn) credentials.AuthInfo {
	if c := ofConn(conn); c != nil && c.state != nil {
		return credentials.TLSInfo{
			State:          *c.state,
			CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
		}
	}
	return plainInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}
}

// plainInfo is gRPC's information about a connection without TLS.
type plainInfo struct{ credentials.CommonAuthInfo }

// AuthType names the kind.
func (plainInfo) AuthType() string { return "insecure" }

// Info describes the credentials.
func (overConn) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

// Clone returns the credentials.
func (o overConn) Clone() credentials.TransportCredentials { return o }

// OverrideServerName is not used.
func (overConn) OverrideServerName(string) error { return nil }
