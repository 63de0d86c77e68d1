package config

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"holdfast/transport/authz"
	"holdfast/transport/secure"
)

// Auth says who may call the client port and the HTTP port.
type Auth struct {
	// Mode is how callers are authenticated. Empty is [authz.None] on a node whose ports are on loopback alone, and
	// otherwise no valid configuration.
	Mode authz.Mode
	// File has the tokens and the names of certificates; AuditFile gets the lines about what operators do. Both may be
	// empty.
	File, AuditFile string
	// HTTPAllowedHosts are further names under which browsers reach a node without authentication, with commas
	// between them.
	HTTPAllowedHosts string
}

// Names returns the hosts of HTTPAllowedHosts.
func (a Auth) Names() []string {
	if a.HTTPAllowedHosts == "" {
		return nil
	}
	return strings.Split(a.HTTPAllowedHosts, ",")
}

// On reports whether callers are authenticated.
func (a Auth) On() bool { return a.Mode != "" && a.Mode != authz.None }

func authSettings() []setting {
	modes := []string{string(authz.None), string(authz.Tokens), string(authz.Certificates), string(authz.Both)}
	mode := choice("auth", "", modes, func(c *Config) *string { return (*string)(&c.Auth.Mode) }).
		from("none on loopback").
		helps("how callers of client_listen, http_listen and zk_listen authenticate; none lets anyone do anything, and " +
			"must be explicit unless these ports are on loopback")
	valid := mode.ok
	mode.ok = func(c *Config) bool { return c.Auth.Mode == "" || valid(c) }
	file := func(name string, at func(c *Config) *string) setting {
		s := word(name, "", "a path, or empty", func(string) bool { return true }, at).from("empty")
		s.kind = "file"
		return s
	}
	return []setting{
		mode,
		file("auth_file", func(c *Config) *string { return &c.Auth.File }).
			helps("YAML file of tokens and certificate names with their roles, reloaded when it changes; required " +
				"unless auth is none"),
		file("audit_file", func(c *Config) *string { return &c.Auth.AuditFile }).
			helps("file for audit lines of operators' actions; empty: the log"),
		word("http_allowed_hosts", "", "names of hosts, with commas between them, or empty",
			func(s string) bool { return !slices.ContainsFunc(Auth{HTTPAllowedHosts: s}.Names(), notHost) },
			func(c *Config) *string { return &c.Auth.HTTPAllowedHosts }).from("empty").
			helps("with auth none: host names with a dot that may reach the console and /metrics, besides the node's " +
				"own in peers"),
	}
}

func notHost(s string) bool { return s == "" || !validHost(s) }

// auth checks that a node without authentication listens beyond loopback only on explicit request.
func (k *checker) auth() {
	a := k.c.Auth
	if a.Mode == "" {
		for _, listen := range []string{"client_listen", "http_listen", "zk_listen"} {
			if at := k.value(listen); at != "" && !onLoopback(at) {
				k.clash("must be set, because "+k.other(listen)+" is not on loopback: give tokens, certificates or both, "+
					"with auth_file; or none, which lets everybody who reaches the port do everything", "auth", listen)
				break
			}
		}
	}
	if t := k.c.TLS; a.Mode == authz.Certificates && (!t.Clients.Secure() || t.ClientAuth == secure.AuthNone) {
		k.clash("must not be certificates with "+k.other("client_tls")+" and "+k.other("client_cert_auth")+
			": no client could show one", "auth", "client_tls", "client_cert_auth")
	}
	k.authOfZooKeeper()
	switch {
	case a.On() && a.File == "":
		k.clash("must be set, because "+k.other("auth")+" needs it: \"holdfast auth token new\" makes a line of it",
			"auth_file", "auth")
	case !a.On() && a.File != "":
		k.clash("must be empty unless auth is tokens, certificates or both: nothing would read it", "auth_file", "auth")
	case a.On() && a.HTTPAllowedHosts != "":
		k.clash("must be empty unless auth is none: nothing would read it", "http_allowed_hosts", "auth")
	}
}

// authOfZooKeeper checks that ZooKeeper's clients can be known, if anybody has to be.
func (k *checker) authOfZooKeeper() {
	a := k.c.Auth
	if a.Mode == authz.Tokens && k.c.Listen.ZooKeeper != "" {
		k.clash("must be empty with "+k.other("auth")+": ZooKeeper's clients show no token; with certificates or both "+
			"they are known by their certificates", "zk_listen", "auth")
	}
	if t := k.c.TLS; a.Mode == authz.Both && k.c.Listen.ZooKeeper != "" &&
		(!t.Clients.Secure() || t.ClientAuth == secure.AuthNone) {
		k.clash("must be empty with "+k.other("client_tls")+" and "+k.other("client_cert_auth")+": ZooKeeper's clients are "+
			"known by their certificates, and none could show one", "zk_listen", "client_tls", "client_cert_auth")
	}
}

// onLoopback reports whether an address that a node listens on is reached from its own machine alone.
func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// authWarnings returns a warning for a node without authentication.
func (c Config) authWarnings() []string {
	var all []string
	if open := c.Listen.ZooKeeper; !c.Auth.On() && (!onLoopback(c.Listen.Client) || !onLoopback(c.Listen.HTTP) ||
		open != "" && !onLoopback(open)) {
		all = append(all,
			"auth is none, and ports are not on loopback: everybody who reaches them may do everything; set auth")
	}
	if takes := c.Auth.Mode == authz.Tokens || c.Auth.Mode == authz.Both; takes && c.TLS.Clients != secure.Require &&
		!onLoopback(c.Listen.Client) {
		all = append(all, "tokens come over connections without TLS, where everybody on the way can read them: "+
			"set client_tls to require")
	}
	if c.Auth.Mode == authz.Certificates && (!c.TLS.HTTP.Secure() || c.TLS.HTTPAuth == secure.AuthNone) {
		all = append(all, "auth is certificates, and callers of http_listen can show none: no caller may read /metrics; set "+
			"http_tls and http_cert_auth")
	}
	return all
}
