package loopback

var HoldPort = holdPort
