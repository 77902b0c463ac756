git init --quiet --initial-branch=main one
cd one
for n in $(seq 20); do
	seq "$n" >"file$((n % 5))"
	git add .
	git commit --quiet --message "change $n"
done
printf '#!/bin/sh\necho hook ran >../hook\n' >.git/hooks/post-commit
chmod 755 .git/hooks/post-commit
git checkout --quiet -b side HEAD~5
echo side >side && git add side && git commit --quiet --message side
git checkout --quiet main
git merge --quiet --no-edit side
git rebase --quiet HEAD~2
[ "$(cat ../hook)" = 'hook ran' ]
git gc --quiet
git fsck --strict
git clone --quiet "file://$PWD" ../two
git -C ../two worktree add --quiet ../three
[ "$(git -C ../three rev-parse HEAD)" = "$(git rev-parse HEAD)" ]
echo pushed >../two/pushed && cd ../two && git add . && git commit --quiet --message push
git push --quiet origin HEAD:refs/heads/pushed
git -C ../one diff --stat main pushed
git archive --format=tar HEAD | tar -t >/dev/null
