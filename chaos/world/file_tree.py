"""The directory tree of a simulated file system. Operations raise the errors that Linux raises."""

import errno
import os
from collections.abc import Iterator

from lograft.chaos.world.power_loss import DirectoryNode, FileNode, Node, change_entries
from lograft.runtime.rng import Rng


class VirtualTree:
    """Directories and files under one root. The nodes decide which changes are durable."""

    def __init__(self) -> None:
        self._root = DirectoryNode()
        self._directories = [self._root]  # includes unlinked ones: a power failure may bring them back

    def node(self, path: str) -> Node:
        node: Node = self._root
        for part in _parts(path):
            if isinstance(node, FileNode):
                raise os_error(errno.ENOTDIR, path)
            found = node.entries.get(part)
            if found is None:
                raise os_error(errno.ENOENT, path)
            node = found
        return node

    def file(self, path: str) -> FileNode:
        node = self.node(path)
        if isinstance(node, DirectoryNode):
            raise os_error(errno.EISDIR, path)
        return node

    def directory(self, path: str) -> DirectoryNode:
        node = self.node(path)
        if isinstance(node, FileNode):
            raise os_error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        """Return the parent directory of `path`, and the last part of `path`, which need not exist."""
        *above, name = _parts(path)
        return self.directory("/".join(above)), name

    def file_or_new(self, path: str) -> FileNode:
        parent, name = self._parent(path)
        if name not in parent.entries:
            change_entries((parent, name, FileNode()))
        return self.file(path)

    def make_directory(self, path: str) -> None:
        """Create the directory, unless it already exists."""
        parent, name = self._parent(path)
        match parent.entries.get(name):
            case None:
                directory = DirectoryNode()
                self._directories.append(directory)
                change_entries((parent, name, directory))
            case FileNode():
                raise os_error(errno.EEXIST, path)
            case DirectoryNode():
                pass

    def rename(self, old: str, new: str) -> None:
        old_parent, old_name = self._parent(old)
        new_parent, new_name = self._parent(new)
        node = old_parent.entries.get(old_name)
        replaced = new_parent.entries.get(new_name)
        if node is None:
            raise os_error(errno.ENOENT, old)
        if node is replaced:
            return
        if isinstance(node, DirectoryNode) and _parts(new)[: len(_parts(old))] == _parts(old):
            raise os_error(errno.EINVAL, old)
        if _parts(old)[: len(_parts(new))] == _parts(new):
            raise os_error(errno.ENOTEMPTY, new)  # the target is an ancestor of `old`, and therefore not empty
        match node, replaced:
            case DirectoryNode(), FileNode():
                raise os_error(errno.ENOTDIR, old)
            case FileNode(), DirectoryNode():
                raise os_error(errno.EISDIR, new)
            case _, DirectoryNode(entries=entries) if entries:
                raise os_error(errno.ENOTEMPTY, new)
        change_entries((old_parent, old_name, None), (new_parent, new_name, node))

    def remove_file(self, path: str) -> None:
        self.file(path)
        parent, name = self._parent(path)
        change_entries((parent, name, None))

    def remove_directory(self, path: str) -> None:
        if self.directory(path).entries:
            raise os_error(errno.ENOTEMPTY, path)
        parent, name = self._parent(path)
        change_entries((parent, name, None))

    def put_directory(self, path: str, directory: DirectoryNode) -> None:
        """Durably place `directory` at `path`, replacing what it names."""
        parent, name = self._parent(path)
        change_entries((parent, name, directory))
        parent.sync()
        self._directories = [node for _, node in self._walk() if isinstance(node, DirectoryNode)]

    def power_failure(self, rng: Rng) -> None:
        """Keep or lose each unsynced change: first of names, then of the content of files that still have a name."""
        for directory in self._directories:
            directory.keep_some(rng)
        for directory in self._directories:
            directory.lose_the_rest()
        self._directories = [node for _, node in self._walk() if isinstance(node, DirectoryNode)]
        for _, file in self.files():
            file.power_failure(rng)

    def files(self) -> Iterator[tuple[str, FileNode]]:
        """Yield every file with its path, in a fixed order."""
        return ((path, node) for path, node in self._walk() if isinstance(node, FileNode))

    def used_bytes(self) -> int:
        return sum(len(file.content) for _, file in self.files())

    def _walk(self) -> Iterator[tuple[str, Node]]:
        waiting: list[tuple[str, Node]] = [("", self._root)]
        while waiting:
            path, node = waiting.pop()
            yield path, node
            if isinstance(node, DirectoryNode):
                waiting.extend((f"{path}/{name}", node.entries[name]) for name in sorted(node.entries, reverse=True))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def os_error(number: int, path: str) -> OSError:
    """Return the `OSError` subclass that a failed system call on `path` raises."""
    return OSError(number, os.strerror(number), path)
