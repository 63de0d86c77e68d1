package config

import (
	"slices"

	"holdfast/transport/secure"
)

// TLS says which ports speak TLS, and with which files.
type TLS struct {
	// Nodes is the mode of the two ports for nodes, in both directions; Clients and HTTP those of the other ports.
	Nodes, Clients, HTTP secure.Mode
	// Cert, Key and CA are this node's certificate, its key, and the CAs of the cluster. ClientCA are those of clients,
	// CA if it is empty.
	Cert, Key, CA, ClientCA string
	// ClientAuth and HTTPAuth say whether callers of these ports need certificates.
	ClientAuth, HTTPAuth secure.Auth
	// AllowTLS12 lets clients and HTTP speak TLS 1.2.
	AllowTLS12 bool
}

// On reports whether any port speaks TLS.
func (t TLS) On() bool { return t.Nodes.Secure() || t.Clients.Secure() || t.HTTP.Secure() }

// Files are the files, for [secure.Open].
func (t TLS) Files() secure.Files {
	return secure.Files{Cert: t.Cert, Key: t.Key, CA: t.CA, ClientCA: t.ClientCA}
}

// withDefaults makes a Config that was made by code, without a word of TLS, speak none.
func (t TLS) withDefaults() TLS {
	for _, m := range []*secure.Mode{&t.Nodes, &t.Clients, &t.HTTP} {
		if *m == "" {
			*m = secure.Off
		}
	}
	if t.ClientAuth == "" {
		t.ClientAuth = secure.AuthOptional
	}
	if t.HTTPAuth == "" {
		t.HTTPAuth = secure.AuthNone
	}
	return t
}

func tlsSettings() []setting {
	mode := func(name string, at func(c *Config) *secure.Mode) setting {
		return choice(name, string(secure.Off), []string{string(secure.Off), string(secure.Prefer), string(secure.Require)},
			func(c *Config) *string { return (*string)(at(c)) })
	}
	auth := func(name string, def secure.Auth, at func(c *Config) *secure.Auth) setting {
		return choice(name, string(def),
			[]string{string(secure.AuthNone), string(secure.AuthOptional), string(secure.AuthRequire)},
			func(c *Config) *string { return (*string)(at(c)) })
	}
	file := func(name string, at func(c *Config) *string) setting {
		s := word(name, "", "a path, or empty", func(string) bool { return true }, at).from("empty")
		s.kind = "file"
		return s
	}
	return []setting{
		mode("node_tls", func(c *Config) *secure.Mode { return &c.TLS.Nodes }).
			helps("TLS with certificates of both sides on raft_listen and peer_listen; prefer: with and without, during " +
				"a change"),
		mode("client_tls", func(c *Config) *secure.Mode { return &c.TLS.Clients }).
			helps("TLS on client_listen; prefer: with and without"),
		mode("http_tls", func(c *Config) *secure.Mode { return &c.TLS.HTTP }).
			helps("TLS on http_listen; prefer: with and without"),
		file("tls_cert", func(c *Config) *string { return &c.TLS.Cert }).
			helps("PEM file of this node's certificate, with the URI holdfast://CLUSTER_ID/node/NUMBER; reloaded when " +
				"it changes"),
		file("tls_key", func(c *Config) *string { return &c.TLS.Key }).helps("PEM file of the certificate's private key"),
		file("tls_ca", func(c *Config) *string { return &c.TLS.CA }).
			helps("PEM file of the CAs of nodes"),
		file("tls_client_ca", func(c *Config) *string { return &c.TLS.ClientCA }).from("tls_ca").
			helps("PEM file of the CAs of clients and HTTP callers"),
		auth("client_cert_auth", secure.AuthOptional, func(c *Config) *secure.Auth { return &c.TLS.ClientAuth }).
			helps("whether clients with TLS need a certificate; optional verifies one that is given"),
		auth("http_cert_auth", secure.AuthNone, func(c *Config) *secure.Auth { return &c.TLS.HTTPAuth }).
			helps("the same for HTTP callers"),
		toggle("allow_tls_1_2", off, func(c *Config) *bool { return &c.TLS.AllowTLS12 }).
			helps("on: clients and HTTP callers may use TLS 1.2; nodes use 1.3"),
	}
}

// tls checks that the files are there that the modes need.
func (k *checker) tls() {
	t := k.c.TLS
	modes := []string{}
	for name, mode := range map[string]secure.Mode{"node_tls": t.Nodes, "client_tls": t.Clients, "http_tls": t.HTTP} {
		if mode.Secure() {
			modes = append(modes, name)
		}
	}
	if len(modes) == 0 {
		return
	}
	slices.Sort(modes)
	by := k.other(modes[0])
	for name, path := range map[string]string{"tls_cert": t.Cert, "tls_key": t.Key, "tls_ca": t.CA} {
		if path == "" {
			k.clash("must be set with "+by, name, modes[0])
		}
	}
	if !secure.ValidCluster(k.c.ClusterID) {
		k.clash("must have no dot at an end and no two in a row with "+by+": certificates have it as the host of a URI",
			"cluster_id", modes[0])
	}
	if t.Clients == secure.Prefer && t.ClientAuth == secure.AuthRequire {
		k.clash("must not be require with "+k.other("client_tls")+": clients without TLS have no certificate",
			"client_cert_auth", "client_tls")
	}
	if t.HTTP == secure.Prefer && t.HTTPAuth == secure.AuthRequire {
		k.clash("must not be require with "+k.other("http_tls")+": callers without TLS have no certificate",
			"http_cert_auth", "http_tls")
	}
}

// tlsWarnings are those of modes that are for the time of a change.
func (c Config) tlsWarnings() (all []string) {
	for name, mode := range map[string]secure.Mode{
		"node_tls": c.TLS.Nodes, "client_tls": c.TLS.Clients, "http_tls": c.TLS.HTTP,
	} {
		if mode == secure.Prefer {
			all = append(all, name+" is prefer: whoever reaches the port may still speak without TLS; set it to require "+
				"once all speak TLS")
		}
	}
	slices.Sort(all)
	return all
}
