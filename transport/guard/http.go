package guard

import (
	"net"
	"net/http"

	"holdfast/auth"
	"holdfast/transport/secure"
)

// Handler returns a handler that serves callers with one of the roles of need.
func (g *Guard) Handler(need auth.Roles, next http.Handler) http.Handler {
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

// httpAddr is the address of an HTTP caller.
type httpAddr string

var _ net.Addr = httpAddr("")

// Network is tcp.
func (httpAddr) Network() string { return "tcp" }

// String returns the address.
func (a httpAddr) String() string { return string(a) }
