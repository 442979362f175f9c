package main

import "github.com/openai/openai-go/v3"
