package main

import (
	"log"
	"os"
)

func main() { run() }

func run() {
	defer println("never")
	log.Fatalf("no")
	os.Exit(1)
}
