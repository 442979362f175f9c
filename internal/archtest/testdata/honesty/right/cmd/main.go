package main

import "os"

func main() { os.Exit(run()) }

func run() int { return 0 }
