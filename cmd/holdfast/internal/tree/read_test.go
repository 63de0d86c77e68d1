package tree

// binary is data that no terminal may get as it is: zeros, bytes that are no UTF-8, and control characters.
const binary = "\x00\xff\xfe\x1b]0;owned\x07\rx\u009b2J\ny\tz\u202e\n"
