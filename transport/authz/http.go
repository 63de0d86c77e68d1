package authz

import (
	"net"
	"net/http"

	"holdfast/auth"
	"holdfast/transport/secure"
	"holdfast/transport/wire"
)

// Handler returns a handler that serves callers with one of the roles of need.
func (g *Authorizer) Handler(need auth.Roles, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s := shown{bearer: r.Header.Values("Authorization"), from: httpAddr(r.RemoteAddr)}
		if identity, ok := secure.IdentityOf(r.Context()); ok {
			s.names = auth.CertificateNames(identity.Certificate)
		}
		id, err := g.admit(r.URL.Path, auth.Call{Needs: need}, s)
		switch {
		case err == nil:
			next.ServeHTTP(w, r.WithContext(withIdentity(r.Context(), id)))
		case id.Known():
			http.Error(w, err.Error(), http.StatusForbidden)
		default:
			w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast"`)
			http.Error(w, err.Error(), http.StatusUnauthorized)
		}
	})
}

// Browser returns a handler that serves callers with one of the roles of need, as Handler does. A browser cannot send a
// bearer token, but it asks its user for a name and a password: the password is the token, and the name is ignored.
// Requests to next carry the token as a bearer token.
func (g *Authorizer) Browser(need auth.Roles, next http.Handler) http.Handler {
	guarded := g.Handler(need, next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, ok := r.BasicAuth(); ok {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", wire.BearerScheme+" "+password)
		}
		guarded.ServeHTTP(challenger{w}, r)
	})
}

// challenger makes a browser ask for a password.
type challenger struct{ http.ResponseWriter }

// WriteHeader adds the challenge.
func (c challenger) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		c.Header().Set("WWW-Authenticate", `Basic realm="holdfast: the token is the password", charset="UTF-8"`)
	}
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (c challenger) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// httpAddr is the address of an HTTP caller.
type httpAddr string

var _ net.Addr = httpAddr("")

// Network is tcp.
func (httpAddr) Network() string { return "tcp" }

// String returns the address.
func (a httpAddr) String() string { return string(a) }
