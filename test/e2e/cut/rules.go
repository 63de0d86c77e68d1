package main

import (
	"encoding/binary"
	"fmt"
	"net"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// tableName is the only table of rules. To heal is to delete it.
const tableName = "holdfast_cut"

// way is one direction of packets: the hook that sees them, and where in the IPv4 header the other side's address is.
type way struct {
	name   string
	hook   *nftables.ChainHook
	offset uint32
}

const (
	sourceOffset      = 12
	destinationOffset = 16
	addressLen        = 4
)

func directions(name string) ([]way, error) {
	in := way{"in", nftables.ChainHookInput, sourceOffset}
	out := way{"out", nftables.ChainHookOutput, destinationOffset}
	switch name {
	case "both":
		return []way{in, out}, nil
	case "in":
		return []way{in}, nil
	case "out":
		return []way{out}, nil
	default:
		return nil, errUsage
	}
}

// everything is the loss of a link that is cut.
const everything = 100

// fault selects the packets to drop: those from or to ips, of one port unless it is 0, and of these a percentage.
type fault struct {
	ways []way
	ips  []net.IP
	port uint16
	loss uint32
}

// Positions of the ports in a TCP header.
const (
	sourcePortOffset      = 0
	destinationPortOffset = 2
	portLen               = 2
)

// numgenRandom is the kernel's NFT_NG_RANDOM.
const numgenRandom = 1

// cut adds rules that count and drop packets. Cuts add up until heal.
func cut(conn *nftables.Conn, f fault) error {
	table := conn.AddTable(&nftables.Table{Family: nftables.TableFamilyIPv4, Name: tableName})
	for _, w := range f.ways {
		chain := conn.AddChain(&nftables.Chain{
			Name: w.name, Table: table, Type: nftables.ChainTypeFilter, Hooknum: w.hook,
			Priority: nftables.ChainPriorityFilter,
		})
		for _, ip := range f.ips {
			for _, match := range f.ports() {
				exprs := append(address(w.offset, ip), match...)
				exprs = append(exprs, f.some()...)
				exprs = append(exprs, &expr.Counter{}, &expr.Verdict{Kind: expr.VerdictDrop})
				conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: exprs})
			}
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("add rules: %w", err)
	}
	return nil
}

// address matches one address.
func address(offset uint32, ip net.IP) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: addressLen},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: ip.To4()},
	}
}

// ports matches the port on either side, each by a rule of its own: the node may have dialed or accepted.
func (f fault) ports() [][]expr.Any {
	if f.port == 0 {
		return [][]expr.Any{nil}
	}
	var both [][]expr.Any
	for _, offset := range []uint32{sourcePortOffset, destinationPortOffset} {
		both = append(both, []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{syscall.IPPROTO_TCP}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: portLen},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, f.port)},
		})
	}
	return both
}

// some matches a share of the packets at random.
func (f fault) some() []expr.Any {
	if f.loss == everything {
		return nil
	}
	return []expr.Any{
		&expr.Numgen{Register: 1, Modulus: everything, Type: numgenRandom},
		// The comparison works on bytes in network order.
		&expr.Byteorder{SourceRegister: 1, DestRegister: 1, Op: expr.ByteorderHton, Len: addressLen, Size: addressLen},
		&expr.Cmp{Op: expr.CmpOpLt, Register: 1, Data: binary.BigEndian.AppendUint32(nil, f.loss)},
	}
}

// dropped is the number of dropped packets in one direction, from or to one address.
type dropped struct {
	way     string
	ip      net.IP
	packets uint64
}

// counter returns the number of packets that each rule has dropped.
func counter(conn *nftables.Conn) ([]dropped, error) {
	chains, err := conn.ListChainsOfTableFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return nil, fmt.Errorf("list chains: %w", err)
	}
	var all []dropped
	for _, chain := range chains {
		if chain.Table.Name != tableName {
			continue
		}
		rules, err := conn.GetRules(chain.Table, chain)
		if err != nil {
			return nil, fmt.Errorf("list rules: %w", err)
		}
		for _, r := range rules {
			all = append(all, dropped{chain.Name, matched(r), packets(r)})
		}
	}
	return all, nil
}

// matched returns the address that a rule matches, which is its first comparison.
func matched(r *nftables.Rule) net.IP {
	for _, e := range r.Exprs {
		if c, ok := e.(*expr.Cmp); ok {
			return c.Data
		}
	}
	return nil
}

func packets(r *nftables.Rule) uint64 {
	for _, e := range r.Exprs {
		if c, ok := e.(*expr.Counter); ok {
			return c.Packets
		}
	}
	return 0
}

// heal deletes the table, if there is one.
func heal(conn *nftables.Conn) error {
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyIPv4)
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	for _, t := range tables {
		if t.Name == tableName {
			conn.DelTable(t)
		}
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("delete table: %w", err)
	}
	return nil
}
