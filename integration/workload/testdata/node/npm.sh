mkdir library app
cat >library/package.json <<'J'
{"name": "library", "version": "1.0.0", "main": "index.js", "bin": {"say": "say.js"}}
J
echo 'module.exports = "from the library";' >library/index.js
printf '#!/usr/bin/env node\nconsole.log(require("./index.js"));\n' >library/say.js
(cd library && npm pack)
cd app
cat >package.json <<'J'
{"name": "app", "version": "1.0.0", "scripts": {"start": "say", "postinstall": "echo installed > done"}}
J
npm install --offline --no-audit --no-fund ../library/library-1.0.0.tgz
npm install --offline --no-audit --no-fund # Runs the scripts.
[ "$(cat done)" = installed ]
[ "$(npm run --silent start)" = 'from the library' ]
