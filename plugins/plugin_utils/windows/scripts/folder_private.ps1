# storlab: folder_private
# parts: private_folder, windows_only/edition, windows_only/folder_rights
param([string]$Folder)
Assert-WindowsPowerShell
New-PrivateFolder -Folder $Folder
