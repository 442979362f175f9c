package cli

import (
	"os"
	"os/user"
)

// Producer names who submits or asks for something: the flag's value, else
// NIGHTSHIFT_PRODUCER, else the user's name; "unknown" where none is known.
func Producer(flag string) string {
	for _, name := range []string{flag, os.Getenv("NIGHTSHIFT_PRODUCER"), userName()} {
		if name != "" {
			return name
		}
	}
	return "unknown"
}

// Operator is Producer and the machine, as in "anna@desk", for what people look
// up later: who did it, and where.
func Operator() string {
	who := Producer("")
	if host, err := os.Hostname(); err == nil && host != "" {
		who += "@" + host
	}
	return who
}

// userName is the name of the user, "" where it cannot be told.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return os.Getenv("USER")
}
