package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"holdfast/session"
)

// Peer is one node of the cluster, with the addresses at which others reach it. Addresses are HOST:PORT.
type Peer struct {
	Node session.Node
	// Raft and Peer are for the other nodes, Client for clients.
	Raft, Peer, Client string
}

const (
	defaultClientPort = "7400"
	defaultRaftPort   = "7401"
	defaultPeerPort   = "7402"
)

// ParsePeers reads peers separated by commas, each NODE=HOST[:RAFT_PORT[:PEER_PORT]][@CLIENT_ADDRESS]. The default
// ports are 7401 and 7402, the default client address is HOST:7400. An IPv6 host is in brackets. Addresses are checked
// with the rest of a [Config].
func ParsePeers(s string) ([]Peer, error) {
	var peers []Peer
	var problems []error
	for one := range strings.SplitSeq(s, ",") {
		p, err := parsePeer(strings.TrimSpace(one))
		if err != nil {
			problems = append(problems, err)
			continue
		}
		peers = append(peers, p)
	}
	if len(problems) == 0 {
		return peers, nil
	}
	for _, problem := range peerProblems(peers) { // report the problems of the readable peers too
		problems = append(problems, errors.New(problem))
	}
	return nil, errors.Join(problems...)
}

func parsePeer(s string) (Peer, error) {
	malformed := fmt.Errorf(
		"%q must be NODE=HOST[:RAFT_PORT[:PEER_PORT]][@CLIENT_HOST:PORT], separated by commas, with an IPv6 host in "+
			"brackets as in 1=[2001:db8::1]", s,
	)
	number, rest, ok := strings.Cut(s, "=")
	if !ok {
		return Peer{}, malformed
	}
	node, err := ParseNode(number)
	if err != nil {
		return Peer{}, malformed
	}
	where, client, _ := strings.Cut(rest, "@")
	host, ports, ok := cutHost(where)
	if !ok || len(ports) > 2 {
		return Peer{}, malformed
	}
	ports = append(ports, "", "")
	return Peer{
		Node:   node,
		Raft:   net.JoinHostPort(host, cmp.Or(ports[0], defaultRaftPort)),
		Peer:   net.JoinHostPort(host, cmp.Or(ports[1], defaultPeerPort)),
		Client: cmp.Or(client, net.JoinHostPort(host, defaultClientPort)),
	}, nil
}

// cutHost splits HOST:PORT:PORT..., where HOST may be in brackets.
func cutHost(s string) (host string, ports []string, ok bool) {
	if inner, found := strings.CutPrefix(s, "["); found {
		host, s, ok = strings.Cut(inner, "]")
		if !ok || s != "" && s[0] != ':' {
			return "", nil, false
		}
	} else {
		host, _, _ = strings.Cut(s, ":")
		s = s[len(host):]
	}
	if s != "" {
		ports = strings.Split(s[1:], ":")
	}
	return host, ports, host != ""
}

// FormatPeers is the inverse of [ParsePeers], for peers whose Raft and Peer addresses have one host.
func FormatPeers(peers []Peer) string {
	parts := make([]string, len(peers))
	for i, p := range peers {
		_, peerPort, _ := net.SplitHostPort(p.Peer) // a malformed address is shown without its port
		parts[i] = fmt.Sprintf("%d=%s:%s@%s", p.Node, p.Raft, peerPort, p.Client)
	}
	return strings.Join(parts, ",")
}

// ParseNode reads the number of a node.
func ParseNode(s string) (session.Node, error) {
	n, err := strconv.ParseUint(s, 10, 8)
	if err != nil || !session.Node(n).Valid() {
		return 0, errors.New("must be a whole number, 1 to 254")
	}
	return session.Node(n), nil
}

// FormatNode is the inverse of [ParseNode].
func FormatNode(n session.Node) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(int(n))
}

// peerProblems returns the problems of a list of peers, whatever the other settings are.
func peerProblems(peers []Peer) []string {
	var problems []string
	nodes, addresses := map[session.Node]bool{}, map[string]string{}
	for _, p := range peers {
		switch {
		case !p.Node.Valid():
			problems = append(problems, fmt.Sprintf("node %d is not 1 to 254", p.Node))
		case nodes[p.Node]:
			problems = append(problems, fmt.Sprintf("node %d is named twice", p.Node))
		}
		nodes[p.Node] = true
		for _, a := range []struct{ use, address string }{{"raft", p.Raft}, {"peer", p.Peer}, {"client", p.Client}} {
			use := fmt.Sprintf("%s address of node %d", a.use, p.Node)
			if !validDial(a.address) {
				problems = append(problems,
					fmt.Sprintf("%s is %q, and must be HOST:PORT that others can reach, port 1 to 65535", use,
						a.address))
				continue
			}
			if other, taken := addresses[a.address]; taken {
				problems = append(problems, fmt.Sprintf("%s is %s, as the %s", use, a.address, other))
			}
			addresses[a.address] = use
		}
	}
	return problems
}

// Check returns a [session.FieldError] when a node cannot be at these addresses.
func (p Peer) Check() error {
	if problems := peerProblems([]Peer{p}); len(problems) > 0 {
		return &session.FieldError{Field: "member", Limit: "a node that can be reached: " + strings.Join(problems, ", ")}
	}
	return nil
}

// validDial reports whether others can dial an address: it has a host other than "every interface", and a port.
func validDial(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" || !validHost(host) || !validPort(port) {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err != nil || !ip.IsUnspecified()
}

func validListen(address string) bool {
	host, port, err := net.SplitHostPort(address)
	return err == nil && (host == "" || validHost(host)) && validPort(port)
}

func validPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

// validHost accepts IP addresses and names. Names may have underscores, because names in container networks do.
func validHost(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	return strings.Trim(s, clusterIDLetters) == ""
}

// overlap reports whether two listeners would need the same port.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB {
		return false
	}
	return hostA == hostB || everyInterface(hostA) || everyInterface(hostB)
}

func everyInterface(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}
