package node

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"holdfast/node/config"
)

// knownHosts passes on the requests of callers that know this node by an address or by a name that is its own. A foreign
// page may have its own name lead to this node (DNS rebinding). To the browser the node's pages are then that page's,
// whose script could act in the console and read the metrics where nobody has to say who they are.
func knownHosts(cfg *config.Config, next http.Handler) http.Handler {
	if cfg.Auth.On() {
		return next
	}
	var names []string
	for _, name := range cfg.Auth.Names() {
		names = append(names, plainHost(name))
	}
	if self, ok := cfg.Self(); ok {
		for _, address := range []string{self.Client, self.Raft, self.Peer} {
			names = append(names, plainHost(address))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := plainHost(r.Host)
		if foreign(host) && !slices.Contains(names, host) {
			http.Error(w, fmt.Sprintf("This node authenticates nobody (auth is none), and %q is no name of its own, so a "+
				"foreign page may have sent this request. Use an address, or add the name to http_names, or set auth.", host),
				http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// plainHost returns the host of an address, in small letters and without a port.
func plainHost(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// foreign reports whether a host can be a name of a stranger in the public DNS: it has a dot, and is no address.
func foreign(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	return strings.Contains(host, ".") && !strings.HasSuffix(host, ".localhost")
}
