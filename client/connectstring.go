package client

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"holdfast/session"
)

const (
	// DefaultPort is the port of a server that a connect string names without a port: a node's client port.
	DefaultPort = "7400"
	// MaxServers is the largest number of servers of a client.
	MaxServers = 1000
	// maxHost is the largest length of a DNS name.
	maxHost = 253
	// maxChroot is the largest length of a chroot in bytes.
	maxChroot = 4096
)

// ConnectString is the result of [ParseConnectString].
type ConnectString struct {
	// Servers are host:port, in the order of the string and all different. Host names are in lower case, IPv6 addresses
	// in brackets.
	Servers []string
	// Chroot is a path such as /a/b; empty for none. See [Client.Chroot].
	Chroot string
	// OnlyServers is [Config].OnlyEndpoints.
	OnlyServers bool
}

// ParseConnectString reads ZooKeeper's form host1:port,host2:port/chroot (C-09). Hosts are names or IP addresses, IPv6
// in brackets. A server without a port has [DefaultPort]. The chroot is a path by ZooKeeper's rules; "/" alone is no
// chroot. Unlike ZooKeeper, ParseConnectString refuses a server that is named twice, which is more often a slip than a
// weight. The end ?learn=off of the string sets OnlyServers, and ?learn=on does not. The error is a
// [session.FieldError].
func ParseConnectString(s string) (ConnectString, error) {
	var c ConnectString
	s, c.OnlyServers = strings.CutSuffix(s, "?learn=off")
	s = strings.TrimSuffix(s, "?learn=on")
	list, chroot, rooted := strings.Cut(s, "/")
	if rooted && chroot != "" {
		c.Chroot = "/" + chroot
		if err := checkPath(c.Chroot); err != nil {
			return ConnectString{}, err
		}
	}
	for server := range strings.SplitSeq(list, ",") {
		if len(c.Servers) == MaxServers {
			return ConnectString{}, &session.FieldError{
				Field: connectString, Limit: fmt.Sprintf("must name at most %d servers", MaxServers),
			}
		}
		address, limit := parseServer(strings.TrimSpace(server), DefaultPort)
		if limit != "" {
			return ConnectString{}, &session.FieldError{Field: connectString, Limit: limit}
		}
		if slices.Contains(c.Servers, address) {
			return ConnectString{}, &session.FieldError{
				Field: connectString, Limit: fmt.Sprintf("must name each server once, not %q twice", address),
			}
		}
		c.Servers = append(c.Servers, address)
	}
	return c, nil
}

// connectString is the name of the field in errors.
const connectString = "connect string"

// parseServer returns the host:port of a server in one normal form. A server without a port gets the default port, if
// that is not empty. If s is no server, limit says which form is wanted.
func parseServer(s, defaultPort string) (address, limit string) {
	host, port, limit := splitServer(s, defaultPort)
	if limit != "" {
		return "", limit
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' {
		return "", fmt.Sprintf("host:port with a port from 1 to 65535, not %q", s)
	}
	return net.JoinHostPort(host, port), ""
}

// splitServer splits a server into host and port. If it cannot, limit says which form is wanted.
func splitServer(s, defaultPort string) (host, port, limit string) {
	if inner, ok := strings.CutPrefix(s, "["); ok {
		literal, rest, closed := strings.Cut(inner, "]")
		ip, err := netip.ParseAddr(literal)
		if !closed || err != nil || !ip.Is6() || strings.ContainsFunc(ip.Zone(), notInZones) {
			return "", "", fmt.Sprintf("an IPv6 address in brackets, not %q", s)
		}
		after, given := strings.CutPrefix(rest, ":")
		switch {
		case given:
			return ip.String(), after, ""
		case rest == "":
			return ip.String(), defaultPort, ""
		default:
			return "", "", fmt.Sprintf("host:port, not %q", s)
		}
	}
	host, port, given := strings.Cut(s, ":")
	if !given {
		port = defaultPort
	}
	if strings.Contains(port, ":") {
		return "", "", fmt.Sprintf("host:port with an IPv6 address in brackets, not %q", s)
	}
	if !validHost(host) {
		return "", "", fmt.Sprintf("host:port with a host name or an IP address, not %q", s)
	}
	return strings.ToLower(host), port, ""
}

// validHost reports whether s is an IPv4 address, or a host name in the letters that DNS and container runtimes use.
func validHost(s string) bool {
	if s == "" || len(s) > maxHost {
		return false
	}
	for label := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.ContainsFunc(label, notInHosts) {
			return false
		}
	}
	return true
}

// notInHosts reports whether no host name has the character r.
func notInHosts(r rune) bool {
	return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// notInZones reports whether no zone of an IPv6 address has the character r. A zone is the name or number of an
// interface, such as eth0.7.
func notInZones(r rune) bool { return r != '.' && notInHosts(r) }

// checkPath checks a path by ZooKeeper's rules. The path begins with a slash and is not "/".
func checkPath(path string) error {
	invalid := func(limit string) error { return &session.FieldError{Field: "chroot", Limit: limit} }
	switch {
	case len(path) > maxChroot:
		return invalid(fmt.Sprintf("at most %d bytes", maxChroot))
	case !utf8.ValidString(path):
		return invalid("UTF-8")
	case strings.HasSuffix(path, "/"):
		return invalid("no slash at the end")
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return invalid(`no empty name, and no name "." or ".."`)
		}
	}
	if i := strings.IndexFunc(path, forbiddenRune); i >= 0 {
		return invalid(fmt.Sprintf("no character such as %U", []rune(path[i:])[0]))
	}
	return nil
}

// forbiddenRune reports whether ZooKeeper refuses r in paths: control characters, private use, and specials.
func forbiddenRune(r rune) bool {
	return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xe000 && r <= 0xf8ff || r >= 0xfff0 && r <= 0xffff
}
