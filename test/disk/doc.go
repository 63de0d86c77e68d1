// Package disk runs real node processes on disks that fail, fill up, crawl, hang, lie and lose power, and shows that
// nothing acknowledged is lost. Each node has a disk of its own: a process, [holdfast/test/disk/faultd]. Nodes are
// reached as users do, with the client SDK. Run it with "make disks"; the build tag is e2e. See README.md.
package disk
