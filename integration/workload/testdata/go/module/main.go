// Command app adds in goroutines.
package main

import (
	"fmt"
	"sync"
)

func add(n int) int {
	var (
		mu    sync.Mutex
		wg    sync.WaitGroup
		total int
	)
	for i := 0; i < n; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			mu.Lock()
			total++
			mu.Unlock()
		}()
	}
	wg.Wait()
	return total
}

func main() {
	fmt.Println(add(42), add(1000) == 1000)
}
