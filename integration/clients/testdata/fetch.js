fetch(process.argv[2]).then(r => r.text()).then(t => process.stdout.write(t), e => { console.error(String(e.cause ?? e)); process.exit(1) })
